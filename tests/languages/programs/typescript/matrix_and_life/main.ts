// A matrix product in typed arrays, and generations of the game of life.
const n = 160 as const;
type Matrix = Float64Array;
const fill = (f: (i: number, j: number) => number): Matrix => Float64Array.from({ length: n * n }, (_, k) => f((k / n) | 0, k % n));

function multiply(a: Matrix, b: Matrix): Matrix {
  const c: Matrix = new Float64Array(n * n);
  for (let i = 0; i < n; i++)
    for (let k = 0; k < n; k++)
      for (let j = 0, x = a[i * n + k]!; j < n; j++) c[i * n + j]! += x * b[k * n + j]!;
  return c;
}

const product = multiply(fill((i, j) => i + j), fill((i, j) => (i === j ? 2 : 0)));
console.log(product[5 * n + 7], product.reduce((a, b) => a + b));

type Cell = `${number},${number}`;
const live = (cells: ReadonlySet<Cell>): Set<Cell> => {
  const around = new Map<Cell, number>();
  for (const cell of cells) {
    const [x, y] = cell.split(',').map(Number) as [number, number];
    for (let dx = -1; dx <= 1; dx++)
      for (let dy = -1; dy <= 1; dy++)
        if (dx || dy) around.set(`${x + dx},${y + dy}`, (around.get(`${x + dx},${y + dy}`) ?? 0) + 1);
  }
  return new Set([...around].filter(([cell, count]) => count === 3 || (count === 2 && cells.has(cell))).map(([cell]) => cell));
};
let cells: Set<Cell> = new Set<Cell>(['1,0', '2,0', '0,1', '1,1', '1,2']);
let generation: number = 0;
for (const stop of [1, 10, 100] as const) {
  for (; generation < stop; generation++) cells = live(cells);
  console.log(`generation ${stop}: ${cells.size} cells`);
}
