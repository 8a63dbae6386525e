// A pipeline of streams: numbers are made, compressed, hashed, decompressed and summed.
const { Readable, Transform } = require('stream');
const { pipeline } = require('stream/promises');
const { createHash } = require('crypto');
const zlib = require('zlib');

async function main() {
  const source = Readable.from((function* () {
    for (let n = 1; n <= 50000; n++) yield `${n}\n`;
  })());
  let packed = 0;
  const counter = new Transform({
    transform(chunk, _encoding, callback) { packed += chunk.length; callback(null, chunk); },
  });
  const hash = createHash('sha256');
  let rest = '', sum = 0;
  await pipeline(source, zlib.createGzip(), counter, zlib.createGunzip(), async function (text) {
    for await (const chunk of text) {
      hash.update(chunk);
      const lines = (rest + chunk).split('\n');
      rest = lines.pop();
      for (const line of lines) sum += Number(line);
    }
  });
  console.log(`sum ${sum}, sha256 ${hash.digest('hex').slice(0, 16)}, smaller: ${packed < 150000}`);
}

main().catch(error => { console.error(error); process.exit(1); });
