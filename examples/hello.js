// sbx run examples/hello.js
const fs = require("fs");

console.log(`Hello from Node.js ${process.version}, inside a sandbox: ${process.cwd()}.`);
try {
  fs.readFileSync("/etc/shadow");
  console.log("  the host's password hashes: readable");
} catch (error) {
  console.log(`  the host's password hashes: ${error.code}`);
}
