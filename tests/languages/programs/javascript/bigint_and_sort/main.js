// Numbers without bound, and a million of them in order.
const fib = n => {
  let [a, b] = [0n, 1n];
  for (let i = 0; i < n; i++) [a, b] = [b, a + b];
  return a;
};
const power = (base, exponent, modulus) => {
  let result = 1n;
  for (base %= modulus; exponent > 0n; exponent >>= 1n) {
    if (exponent & 1n) result = (result * base) % modulus;
    base = (base * base) % modulus;
  }
  return result;
};
console.log(fib(300).toString());
console.log(power(3n, 2n ** 127n - 2n, 2n ** 127n - 1n) === 1n);

// A linear congruential generator: the same million everywhere.
const numbers = new Uint32Array(1_000_000);
let state = 12345;
for (let i = 0; i < numbers.length; i++) numbers[i] = state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
const ordinary = Array.from(numbers).sort((a, b) => a - b);
numbers.sort();
console.log(numbers.every((n, i) => n === ordinary[i] && (i === 0 || numbers[i - 1] <= n)));
console.log(numbers[0], numbers[500_000], numbers[999_999]);
