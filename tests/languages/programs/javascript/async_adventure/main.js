// A lock with a code: lines of stdin are read as they come, timers run between them.
const readline = require('readline');
const { setTimeout: sleep } = require('timers/promises');

class Lock {
  #code;
  #tries = 0;
  constructor(code) { this.#code = code; }
  async guess(text) {
    this.#tries++;
    await sleep(1);
    if (!/^\d{4}$/.test(text)) throw new RangeError(`'${text}' is not four digits`);
    const right = [...text].filter((digit, i) => digit === this.#code[i]).length;
    const placed = [...new Set(text)].filter(digit => this.#code.includes(digit)).length - right;
    return { open: right === 4, right, placed: Math.max(placed, 0), tries: this.#tries };
  }
}

(async () => {
  const lock = new Lock(process.argv[2]);
  for await (const line of readline.createInterface({ input: process.stdin })) {
    try {
      const { open, right, placed, tries } = await lock.guess(line.trim());
      if (open) return console.log(`open after ${tries} tries`);
      console.log(`${right} right, ${placed} elsewhere`);
    } catch (error) {
      console.log(`${error.name}: ${error.message}`);
    }
  }
  process.exitCode = 3;
  console.log('still shut');
})();
