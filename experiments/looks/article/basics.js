// What all parts of the page use: the data, elements, words, sums.

const data = JSON.parse(document.getElementById("data").textContent);
const { depth: L, hidden: D, d_in, d_out: K } = data.config;
const side = Math.sqrt(d_in);
const $ = id => document.getElementById(id);
const all = selector => [...document.querySelectorAll(selector)];
const clip = value => Math.min(Math.max(value, 0), 1);
const within = (index, n) => Math.min(Math.max(Math.floor(index), 0), n - 1);
const fixed = (value, digits = 2) => value.toFixed(digits).replace("-", "−");
const percent = (share, digits = 1) => `${(100 * share).toFixed(digits)}\u00a0%`;
const count = (n, noun) => `${n.toLocaleString("en")}\u00a0${noun}${n === 1 ? "" : "s"}`;
const withHalf = ([value, half]) => value.toFixed(1) + (half === null ? "" : `\u00a0±\u00a0${half.toFixed(1)}`);
const listed = words => words.join(", ").replace(/, ([^,]*)$/, " and $1");
const a = label => `${/^(8|11|18)/.test(label) ? "an" : "a"}\u00a0${label}`;
const range = n => [...Array(n).keys()];
const argmax = values => values.indexOf(Math.max(...values));
const sum = values => values.reduce((total, value) => total + value, 0);
const mean = values => sum(values) / values.length;
