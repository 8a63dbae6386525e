// Reads records from stdin as JSON, builds the tree that their parents describe, and prints it in two forms.
const fs = require('fs');

const records = JSON.parse(fs.readFileSync(0, 'utf8'));
const nodes = new Map(records.map(({ id, name }) => [id, { name, children: [] }]));
const roots = [];
for (const { id, parent } of records) {
  (parent === null ? roots : nodes.get(parent).children).push(nodes.get(id));
}

const size = node => 1 + node.children.reduce((sum, child) => sum + size(child), 0);

function* lines(node, prefix = '', last = true, top = true) {
  yield top ? node.name : `${prefix}${last ? '└─' : '├─'} ${node.name}`;
  const deeper = top ? '' : `${prefix}${last ? '   ' : '│  '}`;
  for (const [index, child] of node.children.entries()) {
    yield* lines(child, deeper, index === node.children.length - 1, false);
  }
}

for (const root of roots) {
  console.log([...lines(root)].join('\n'));
  console.log(`${size(root)} nodes`);
}
console.log(JSON.stringify(roots, (key, value) => (Array.isArray(value) && !value.length ? undefined : value)));
