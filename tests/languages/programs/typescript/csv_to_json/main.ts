// CSV with quotes on stdin to typed JSON records.
import * as fs from 'node:fs';

type Field = string | number | boolean | null;
interface Row { [column: string]: Field }

function* cells(text: string): Generator<string[]> {
  let row: string[] = [], cell = '', quoted = false;
  for (let i = 0; i < text.length; i++) {
    const c = text[i] as string;
    if (quoted) {
      if (c !== '"') cell += c;
      else if (text[i + 1] === '"') cell += text[++i];
      else quoted = false;
    } else if (c === '"') quoted = true;
    else if (c === ',') { row.push(cell); cell = ''; }
    else if (c === '\n') { row.push(cell); yield row; row = []; cell = ''; }
    else cell += c;
  }
}

const guess = (text: string): Field =>
  text === '' ? null : /^(true|false)$/.test(text) ? text === 'true' : isFinite(+text) ? +text : text;

function records<T extends Row = Row>(text: string): T[] {
  const [head, ...rows] = [...cells(text)];
  return rows.map(row => Object.fromEntries(row.map((cell, i) => [head![i], guess(cell)])) as T);
}

const people = records<{ name: string; age: number | null; note: string; member: boolean }>(fs.readFileSync(0, 'utf8'));
for (const person of people) console.log(JSON.stringify(person));
const ages = people.map(({ age }) => age).filter((age): age is number => age !== null);
console.log(`mean age ${ages.reduce((a, b) => a + b, 0) / ages.length}, ${people.filter(p => p.member).length} members`);
