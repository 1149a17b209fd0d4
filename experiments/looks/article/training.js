"use strict";
// Small deep nets and their training, with the names and equations of highway_networks.py, against which a test holds
// them. The page runs this file twice: as a script of its own, and in a worker, which trains.
//
// Columns are samples, and tensors are flat arrays of rows: x (D + 1, B), whose last row is 1; z (G·D, B), the affine
// maps of the branches, which become H and T in place; W (G·D, D + 1) = [W_H b_H; W_T b_T].

// ------------------------------------------------------------------------------------ the parameters

function mulberry32(state) {                                   // see SmallGenerator in gate_explorer.py
  return () => {
    let t = state = (state + 0x6D2B79F5) | 0;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

const uniform = (random, bound) => -bound + 2 * bound * random();
const normal = (random, sd) => sd * Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
const INITS = {                                                // one weight
  uniform: (random, fan_in) => uniform(random, 1 / Math.sqrt(fan_in)),
  glorot: (random, fan_in, fan_out) => uniform(random, Math.sqrt(6 / (fan_in + fan_out))),
  he: (random, fan_in) => normal(random, Math.sqrt(2 / fan_in)),
  gaussian: random => normal(random, 0.01),
  orthogonal: random => normal(random, 1),                     // all of a matrix are then made orthonormal
};

const transposed = rows => rows[0].map((_, column) => rows.map(row => row[column]));

function orthonormalise(vectors) {                             // Gram and Schmidt: the Q of QR, with R > 0
  const dot = (a, b) => a.reduce((total, value, i) => total + value * b[i], 0);
  return vectors.reduce((found, vector) => {
    let rest = vector;
    for (const q of [...found, ...found]) {                    // the second time for what rounding has left
      const along = dot(q, rest);
      rest = rest.map((value, i) => value - along * q[i]);
    }
    const length = Math.sqrt(dot(rest, rest));
    return [...found, rest.map(value => value / length)];
  }, []);
}

// Initial weights as rows; of orthogonal ones the rows are orthonormal or, if there are more of them, the columns.
function drawWeights(init, random, rows, columns) {
  const drawn = Array.from({ length: rows }, () => Array.from({ length: columns }, () => INITS[init](random, columns, rows)));
  if (init !== "orthogonal") return drawn;
  return rows < columns ? orthonormalise(drawn) : transposed(orthonormalise(transposed(drawn)));
}

// The matrices [W b] of a flat vector: input (D, d_in + 1), blocks L times (G·D, D + 1), output (K, D + 1).
function matrices(flat, { d_in, d_out, hidden: D, depth: L }, G) {
  let end = 0;
  const matrix = (rows, columns) => ({ rows, columns, W: flat.subarray(end, end += rows * columns) });
  return {
    input: matrix(D, d_in + 1), blocks: Array.from({ length: L }, () => matrix(G * D, D + 1)), output: matrix(d_out, D + 1),
  };
}

// Draw initial weights in the order W_in, W_H, W_T, ..., W_out.
function initialise({ input, blocks, output }, { init, init_gain = 1, gate_bias }, branches, random) {
  const D = input.rows, draw = ({ columns, W }, first, rows, bias, gain) =>
    drawWeights(init, random, rows, columns - 1).forEach((row, i) =>
      W.set([...row.map(value => gain * value), bias], (first + i) * columns));
  draw(input, 0, D, 0, init_gain);
  [...branches].forEach((branch, g) => {
    const bias = { H: 0, T: gate_bias, C: -gate_bias }[branch];
    for (const block of blocks) draw(block, g * D, D, bias, branch === "H" ? init_gain : 1);
  });
  draw(output, 0, output.rows, 0, init_gain);
}

// ---------------------------------------------------------------------------------------- the blocks
// Both functions take n = D·B numbers of each branch. dz receives the gradients of the maps, dx that of the path
// around them.

const BLOCKS = {
  plain: {
    branches: "H",
    forward(x, z, y, n) {
      for (let i = 0; i < n; i++) y[i] = z[i] = Math.tanh(z[i]);  // y = H
    },
    backward(dy, x, z, dz, dx, n) {
      for (let i = 0; i < n; i++) {
        dz[i] = dy[i] * (1 - z[i] * z[i]);
        dx[i] = 0;
      }
    },
  },
  highway: {
    branches: "HT",
    forward(x, z, y, n) {
      for (let i = 0, t = n; i < n; i++, t++) {
        z[i] = Math.tanh(z[i]);
        z[t] = 1 / (1 + Math.exp(-z[t]));
        y[i] = (z[i] - x[i]) * z[t] + x[i];                    // y = H·T + x·(1 − T)
      }
    },
    backward(dy, x, z, dz, dx, n) {
      for (let i = 0, t = n; i < n; i++, t++) {
        const H = z[i], T = z[t], dH = T * dy[i];
        dz[i] = dH * (1 - H * H);
        dz[t] = (H - x[i]) * dy[i] * T * (1 - T);
        dx[i] = dy[i] - dH;
      }
    },
  },
};

// ------------------------------------------------------------------------------------------- the net

// C (m, n) = A (m, k) · B (k, n). The steps say how far apart neighbours in a column and in a row of A and B lie, so
// that either may be transposed. Two rows and four columns at a time: eight sums are under way at once, of six numbers
// read. Where less is left, the last row or column is computed more than once.
function multiply(C, m, n, k, A, a_down, a_along, B, b_down, b_along) {
  for (let i = 0; i < m; i += 2) {
    const p = Math.min(i + 1, m - 1);
    for (let j = 0; j < n; j += 4) {
      const q = Math.min(j + 1, n - 1), r = Math.min(j + 2, n - 1), s = Math.min(j + 3, n - 1);
      let ij = 0, iq = 0, ir = 0, is = 0, pj = 0, pq = 0, pr = 0, ps = 0;
      let at_i = i * a_down, at_p = p * a_down;
      let at_j = j * b_along, at_q = q * b_along, at_r = r * b_along, at_s = s * b_along;
      for (let l = 0; l < k; l++) {
        const A_i = A[at_i], A_p = A[at_p], B_j = B[at_j], B_q = B[at_q], B_r = B[at_r], B_s = B[at_s];
        ij += A_i * B_j; iq += A_i * B_q; ir += A_i * B_r; is += A_i * B_s;
        pj += A_p * B_j; pq += A_p * B_q; pr += A_p * B_r; ps += A_p * B_s;
        at_i += a_along; at_p += a_along;
        at_j += b_down; at_q += b_down; at_r += b_down; at_s += b_down;
      }
      C[i * n + j] = ij; C[i * n + q] = iq; C[i * n + r] = ir; C[i * n + s] = is;
      C[p * n + j] = pj; C[p * n + q] = pq; C[p * n + r] = pr; C[p * n + s] = ps;
    }
  }
}

function affineForward({ rows, columns, W }, x, z, B) {
  multiply(z, rows, B, columns, W, columns, 1, x, B, 1);       // z = W x
}

function affineBackward(dz, { rows, columns, W }, x, dW, dx, B) {
  multiply(dW, rows, columns, B, dz, B, 1, x, 1, B);           // dW = dz xᵀ
  if (dx) multiply(dx, columns - 1, B, rows, W, 1, columns, dz, B, 1);  // dx = Wᵀ dz, without the row of ones
}

class DeepNet {
  constructor(config) {                                        // all parameters are 0 until they are drawn
    const { d_in, d_out, hidden: D, depth: L } = config, G = BLOCKS[config.block].branches.length;
    this.config = config;
    this.block = BLOCKS[config.block];
    this.flat = new Float64Array(D * (d_in + 1) + L * G * D * (D + 1) + d_out * (D + 1));
    this.params = matrices(this.flat, config, G);
  }

  draw(random) {
    initialise(this.params, this.config, this.block.branches, random);
  }

  // Memory for batches of B samples: the batch as input (d_in + 1, B), the states x, the maps z, gradients.
  workspace(B) {
    const { d_in, d_out, hidden: D, depth: L } = this.config, G = this.block.branches.length;
    const numbers = rows => new Float64Array(rows * B), withOnes = rows => numbers(rows + 1).fill(1, rows * B);
    const gradient = new Float64Array(this.flat.length);
    return {
      B, input: withOnes(d_in), x: Array.from({ length: L + 1 }, () => withOnes(D)),
      z: Array.from({ length: L }, () => numbers(G * D)), logits: numbers(d_out), y: new Uint8Array(B),
      gradient, grads: matrices(gradient, this.config, G), dz: numbers(G * D), flows: [numbers(D), numbers(D), numbers(D)],
    };
  }

  forward(w) {                                                 // of w.input; the logits (K, B) are in w.logits
    const { params: p, block } = this, { B, x, z } = w, n = this.config.hidden * B;
    affineForward(p.input, w.input, x[0], B);
    for (let i = 0; i < n; i++) x[0][i] = Math.tanh(x[0][i]);
    p.blocks.forEach((matrix, l) => {
      affineForward(matrix, x[l], z[l], B);
      block.forward(x[l], z[l], x[l + 1], n);
    });
    affineForward(p.output, x.at(-1), w.logits, B);
  }

  backward(w) {                                                // of dlogits (K, B) in w.logits; see w.gradient
    const { params: p, block } = this, { B, x, z, dz, grads } = w, n = this.config.hidden * B;
    let [dy, dx, through] = w.flows;
    affineBackward(w.logits, p.output, x.at(-1), grads.output.W, dy, B);
    for (let l = p.blocks.length - 1; l >= 0; l--) {
      block.backward(dy, x[l], z[l], dz, dx, n);
      affineBackward(dz, p.blocks[l], x[l], grads.blocks[l].W, through, B);
      for (let i = 0; i < n; i++) dx[i] += through[i];         // around the affine maps, and through them
      [dy, dx] = [dx, dy];
    }
    for (let i = 0; i < n; i++) dy[i] *= 1 - x[0][i] * x[0][i];
    affineBackward(dy, p.input, w.input, grads.input.W, null, B);
  }
}

// --------------------------------------------------------------------------------------- the training

// Mean loss in nats of the logits (K, B), which become dlogits, and of the classes y (B).
function softmaxCrossEntropy({ logits, y, B }) {
  const K = logits.length / B;
  let loss = 0;
  for (let b = 0; b < B; b++) {
    let largest = -Infinity, total = 0;
    for (let i = b; i < K * B; i += B) largest = Math.max(largest, logits[i]);
    const right = logits[y[b] * B + b] - largest;
    for (let i = b; i < K * B; i += B) total += logits[i] = Math.exp(logits[i] - largest);
    for (let i = b; i < K * B; i += B) logits[i] /= total * B;
    logits[y[b] * B + b] -= 1 / B;                             // (softmax − one-hot) / B
    loss += Math.log(total) - right;
  }
  return loss / B;
}

function clipGlobalNorm(gradient, most) {
  let squares = 0;
  for (let i = 0; i < gradient.length; i++) squares += gradient[i] * gradient[i];
  const factor = most / Math.sqrt(squares);
  if (factor < 1) for (let i = 0; i < gradient.length; i++) gradient[i] *= factor;
}

class Adam {                                                   // Kingma and Ba 2015, algorithm 1
  constructor(params, lr) {
    Object.assign(this, { params, lr, t: 0, m: new Float64Array(params.length), v: new Float64Array(params.length) });
  }

  step(gradient, beta1 = 0.9, beta2 = 0.999, eps = 1e-8) {
    const { params, lr, m, v } = this;
    this.t += 1;
    const m_scale = 1 / (1 - beta1 ** this.t), v_scale = 1 / (1 - beta2 ** this.t);
    for (let i = 0; i < params.length; i++) {
      m[i] = beta1 * m[i] + (1 - beta1) * gradient[i];
      v[i] = beta2 * v[i] + (1 - beta2) * gradient[i] * gradient[i];
      params[i] -= lr * m_scale * m[i] / (Math.sqrt(v_scale * v[i]) + eps);
    }
  }
}

function trainStep(net, w, optimizer, clip) {                  // on the batch in w.input and w.y; the loss before it
  net.forward(w);
  const loss = softmaxCrossEntropy(w);
  net.backward(w);
  clipGlobalNorm(w.gradient, clip);
  optimizer.step(w.gradient);
  return loss;
}

function fill(w, { x, y }, indices) {                          // with these samples of the rows x (n, d_in)
  const d_in = x.length / y.length;
  indices.forEach((sample, b) => {
    for (let i = 0; i < d_in; i++) w.input[i * w.B + b] = x[sample * d_in + i];
    w.y[b] = y[sample];
  });
}

function accuracy(net, samples, w) {                           // as many at a time as the workspace holds
  const n = samples.y.length, { B, logits } = w;
  let right = 0;
  for (let start = 0; start < n; start += B) {
    const indices = Array.from({ length: Math.min(B, n - start) }, (_, i) => start + i);
    fill(w, samples, indices);
    net.forward(w);
    indices.forEach((_, b) => {
      const of = Array.from({ length: logits.length / B }, (_, label) => logits[label * B + b]);
      right += of.indexOf(Math.max(...of)) === w.y[b];
    });
  }
  return right / n;
}

function shuffled(n, random) {                                 // Fisher and Yates
  const order = Array.from({ length: n }, (_, i) => i);
  for (let i = n - 1; i > 0; i--) {
    const other = Math.floor(random() * (i + 1));
    [order[i], order[other]] = [order[other], order[i]];
  }
  return order;
}

// Train a net; yields its accuracy on the test samples, of the untrained net first, then after every epoch.
function* train(config, { train, test }) {
  const { batch_size: B, epochs, clip, lr, seed } = config, random = mulberry32(seed), net = new DeepNet(config);
  net.draw(random);
  const optimizer = new Adam(net.flat, lr), whole = net.workspace(B), last = net.workspace(train.y.length % B);
  yield accuracy(net, test, whole);
  for (let epoch = 0; epoch < epochs; epoch++) {
    const order = shuffled(train.y.length, random);
    for (let start = 0; start < order.length; start += B) {
      const batch = order.slice(start, start + B), w = batch.length === B ? whole : last;
      fill(w, train, batch);
      trainStep(net, w, optimizer, clip);
    }
    yield accuracy(net, test, whole);
  }
}

if (!globalThis.document) {                                    // in a worker
  onmessage = ({ data: [config, samples] }) => {
    for (const score of train(config, samples)) postMessage(score);
    close();
  };
}
