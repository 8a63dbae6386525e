// Dijkstra over a typed graph with a generic heap.
class Heap<T> {
  private readonly items: T[] = [];
  private readonly less: (a: T, b: T) => boolean;
  constructor(less: (a: T, b: T) => boolean = (a, b) => a < b) { this.less = less; }
  get size(): number { return this.items.length; }
  push(item: T): void {
    this.items.push(item);
    let at = this.items.length - 1;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (!this.less(this.items[at]!, this.items[parent]!)) break;
      [this.items[at], this.items[parent]] = [this.items[parent]!, this.items[at]!];
      at = parent;
    }
  }
  pop(): T | undefined {
    const top = this.items[0];
    const last = this.items.pop();
    if (this.items.length > 0 && last !== undefined) {
      this.items[0] = last;
      for (let at = 0; ;) {
        let least = at;
        for (const child of [2 * at + 1, 2 * at + 2]) {
          if (child < this.items.length && this.less(this.items[child]!, this.items[least]!)) least = child;
        }
        if (least === at) break;
        [this.items[at], this.items[least]] = [this.items[least]!, this.items[at]!];
        at = least;
      }
    }
    return top;
  }
}

interface Edge { readonly to: number; readonly cost: number }
const width = 200;
const graph: Edge[][] = Array.from({ length: width * width }, (_, node) => {
  const [x, y] = [node % width, Math.floor(node / width)];
  const steps: [number, number][] = [[x + 1, y], [x, y + 1], [x - 1, y], [x, y - 1]];
  return steps.filter(([a, b]) => a >= 0 && b >= 0 && a < width && b < width)
    .map(([a, b]): Edge => ({ to: b * width + a, cost: 1 + ((a * 7 + b * 13) % 10) }));
});

const distance = new Float64Array(graph.length).fill(Infinity);
distance[0] = 0;
const heap = new Heap<readonly [number, number]>((a, b) => a[0] < b[0]);
heap.push([0, 0]);
let settled = 0;
while (heap.size > 0) {
  const [far, node] = heap.pop()!;
  if (far > distance[node]!) continue;
  settled++;
  for (const { to, cost } of graph[node]!) {
    if (far + cost < distance[to]!) {
      distance[to] = far + cost;
      heap.push([far + cost, to]);
    }
  }
}
console.log(`settled ${settled}, corner at ${distance[graph.length - 1]}, farthest ${Math.max(...distance)}`);
