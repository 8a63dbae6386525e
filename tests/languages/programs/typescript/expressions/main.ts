// A parser and evaluator for arithmetic: a tree of tagged unions, lines from stdin.
import { readFileSync } from 'fs';

type Tree =
  | { kind: 'number'; value: number }
  | { kind: 'negate'; of: Tree }
  | { kind: 'binary'; operator: Operator; left: Tree; right: Tree };
type Operator = '+' | '-' | '*' | '/' | '^';

const BINDING: Record<Operator, number> = { '+': 1, '-': 1, '*': 2, '/': 2, '^': 4 };

function parse(text: string): Tree {
  const tokens: string[] = text.match(/\d+(?:\.\d+)?|[-+*/^()]|\S/g) ?? [];
  let at = 0;
  function operand(): Tree {
    const token: string | undefined = tokens[at++];
    if (token === '(') {
      const inner = expression(0);
      if (tokens[at++] !== ')') throw new SyntaxError('a parenthesis is open');
      return inner;
    }
    if (token === '-') return { kind: 'negate', of: expression(3) };
    const value = Number(token);
    if (token === undefined || Number.isNaN(value)) throw new SyntaxError(`unexpected ${token ?? 'end'}`);
    return { kind: 'number', value };
  }
  function expression(least: number): Tree {
    let left = operand();
    while (at < tokens.length && tokens[at] in BINDING && BINDING[tokens[at] as Operator] > least) {
      const operator = tokens[at++] as Operator;
      const right = expression(operator === '^' ? BINDING[operator] - 1 : BINDING[operator]);
      left = { kind: 'binary', operator, left, right };
    }
    return left;
  }
  const tree = expression(0);
  if (at < tokens.length) throw new SyntaxError(`unexpected ${tokens[at]}`);
  return tree;
}

function evaluate(tree: Tree): number {
  switch (tree.kind) {
    case 'number': return tree.value;
    case 'negate': return -evaluate(tree.of);
    case 'binary': {
      const [a, b]: [number, number] = [evaluate(tree.left), evaluate(tree.right)];
      const apply: { [O in Operator]: () => number } =
        { '+': () => a + b, '-': () => a - b, '*': () => a * b, '/': () => a / b, '^': () => a ** b };
      return apply[tree.operator]();
    }
  }
}

for (const line of readFileSync(0, 'utf8').split('\n').filter(line => line.trim())) {
  try {
    console.log(`${line} = ${evaluate(parse(line))}`);
  } catch (error: unknown) {
    console.log(`${line}: ${(error as Error).message}`);
  }
}
