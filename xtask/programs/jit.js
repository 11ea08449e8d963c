// Hot enough for every tier of the engine, with type changes that force code to be thrown away.
'use strict';
function collatz(most) {
  let steps = 0;
  for (let i = 1; i < most; i++)
    for (let n = i; n !== 1; steps++) n = n % 2 === 0 ? n / 2 : 3 * n + 1;
  return steps;
}
function add(a, b) { return a + b; }
function polymorphic(rounds) {
  let sum = 0;
  for (let i = 0; i < rounds; i++) sum = add(sum, i);
  let text = '';
  for (let i = 0; i < 100; i++) text = add(text, String.fromCharCode(97 + (i % 26)));
  let real = 0.5;
  for (let i = 0; i < rounds; i++) real = add(real, 0.25);
  return `${sum} ${text.length} ${real}`;
}
console.log(collatz(60000));
console.log(polymorphic(300000));
const map = new Map();
for (let i = 0; i < 100000; i++) map.set(`k${i % 997}`, (map.get(`k${i % 997}`) || 0) + i);
console.log(map.size, map.get('k7'));
const numbers = new Float64Array(20000).map((_, i) => (i * 7919) % 10007);
numbers.sort();
console.log(numbers[100], numbers[19999]);
const made = new Function('x', 'return x * x + 1');
let total = 0;
for (let i = 0; i < 20000; i++) total += made(i % 100);
console.log(total);
setTimeout(() => console.log('timer'), 20);
