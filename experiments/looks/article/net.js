// The stored net, as in highway_networks.py, with its names, for one image at a time. Every tensor is float32.

const activate = { tanh: Math.tanh, relu: z => Math.max(z, 0), elu: z => z < 0 ? Math.expm1(z) : z }[data.config.activation];
const sigmoid = z => 1 / (1 + Math.exp(-z));
const EQUATIONS = {                                            // of a unit; the formula is shown
  plain: { y: H => H },
  highway: { branches: "HT", y: (H, x, T) => (H - x) * T + x, formula: "({H} − {x})·{T} + {x}" },
  "highway-uncoupled": { branches: "HTC", y: (H, x, T, C) => H * T + x * C, formula: "{H}·{T} + {x}·{C}" },
};
const block = EQUATIONS[data.config.block], branches = [...block.branches], G = branches.length;

function affine({ rows, columns, W }, x) {                     // z = W x + b
  const z = new Float32Array(rows), n = columns - 1;
  for (let row = 0, start = 0; row < rows; row++, start += columns) {
    let z_row = W[start + n];
    for (let column = 0; column < n; column++) z_row += W[start + column] * x[column];
    z[row] = z_row;
  }
  return z;
}

function layer(equation, matrix, x) {                          // the maps z (G·D) become H, T, ...
  const z = affine(matrix, x).map((value, row) => row < D ? activate(value) : sigmoid(value));
  return { z, y: z.slice(0, D).map((H, j) => equation.y(H, x[j], z[D + j], z[2 * D + j])) };
}

// Logits, and for each layer H, T, ... in z, T and output; x[l] is the input of layer l + 1, which a closed layer passes on.
function forward(net, image, closed) {
  let x = layer(EQUATIONS.plain, net.input, image).y;
  const cache = { x: [x], z: [], T: [] };
  for (let l = 0; l < L; l++) {
    const { z, y } = closed[l] ? { z: new Float32Array(G * D), y: x } : layer(block, net.blocks[l], x);
    x = y;
    cache.z.push(z); cache.T.push(z.subarray(D, 2 * D)); cache.x.push(x);
  }
  return { logits: affine(net.output, x), ...cache };
}

function softmax(logits) {
  const largest = Math.max(...logits), powers = Array.from(logits, z => Math.exp(z - largest)), total = sum(powers);
  return powers.map(power => power / total);
}

function read(net, image, closed) {                            // its answer
  const probabilities = softmax(forward(net, image, closed).logits), best = argmax(probabilities);
  return { best, probability: probabilities[best] };
}

const effectiveDepth = T => sum(T.map(mean));

// ---------------------------------------------------------------------------------------- its weights

async function inflate(text) {                                 // see packed() in gate_explorer.py
  const bytes = Uint8Array.from(atob(text), letter => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

async function unpack(text) {                                  // see as_integers()
  const bytes = await inflate(text), n = bytes.length / 2;     // all low ones, then all high ones
  const flat = Float32Array.from({ length: n }, (_, i) => (bytes[i] + 256 * bytes[n + i]) << 16 >> 16);
  const { input, blocks, output } = matrices(flat, data.config, G);
  [input, ...blocks, output].forEach(({ W }, i) => W.forEach((multiple, j) => { W[j] = data.factors[i] * multiple; }));
  return flat;
}

// Fresh weights by the same initialisation.
function untrained(size, seed) {
  const net = matrices(new Float32Array(size), data.config, G);
  initialise(net, data.config, branches, mulberry32(seed));
  return net;
}

// ------------------------------------------------------------------------------------------ the image

const asInputs = pixels => Float32Array.from(pixels, pixel => pixel / 127.5 - 1);

// The ink of a canvas, that is, how opaque each of n × n points is, as MNIST's digits were made (LeCun et al. 1998): scaled
// to fit a box, 20 × 20 of 28 × 28, each pixel the mean of the ink on it, and moved by whole pixels so that the centre of
// mass comes into pixel (14, 14) counted from 0. A drawing that is smaller than the box stays as small.
function asDigit(rgba, n) {
  const box = Math.round(side * 20 / 28), pixels = new Uint8ClampedArray(d_in);
  let [left, right, top, bottom, mass, x_mass, y_mass] = [n, 0, n, 0, 0, 0, 0];
  for (let y = 0; y < n; y++) for (let x = 0; x < n; x++) {
    const value = rgba[4 * (y * n + x) + 3];
    if (!value) continue;
    left = Math.min(left, x); right = Math.max(right, x + 1);
    top = Math.min(top, y); bottom = y + 1;
    mass += value; x_mass += value * (x + 0.5); y_mass += value * (y + 0.5);
  }
  if (!mass) return pixels;
  const size = Math.max(right - left, bottom - top, box), scale = box / size;
  const dx = Math.floor(side / 2 + 1 - scale * (x_mass / mass - left));
  const dy = Math.floor(side / 2 + 1 - scale * (y_mass / mass - top));
  const sums = new Float64Array(d_in), counts = new Float64Array(d_in);
  const places = (first, shift) => range(n).map(at => Math.floor((at + 0.5 - first) * scale) + shift);
  const rows = places(top, dy), columns = places(left, dx), inside = at => at >= 0 && at < side;
  for (let y = 0; y < n; y++) for (let x = 0; inside(rows[y]) && x < n; x++) {
    if (!inside(columns[x])) continue;
    sums[rows[y] * side + columns[x]] += rgba[4 * (y * n + x) + 3];
    counts[rows[y] * side + columns[x]] += 1;
  }
  return pixels.map((_, i) => sums[i] / Math.max(counts[i], 1));
}

