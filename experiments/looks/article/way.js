// ----------------------------------------------------------------------------- 2. One digit's way

function showWay() {
  const seen = examine(), of = seen?.[state.net], beside = seen?.[other[state.net]], { layer: l } = state;
  const largest = scales[state.net], zero = signed ? 0.5 : 0, gates = of?.T.map(mean);
  const place = placeOf(l);
  const lines = of && half(gates);
  for (const name of ["layer", "unit"]) $("way").style.setProperty(`--${name}`, state[name]);
  all(".way-map, #means").forEach(strip => strip.classList.toggle("empty", !of));
  paint($("map-T"), D, L + 1, "sequential", (j, l) => of && l ? of.T[l - 1][j] : null);
  paint($("map-x"), D, L + 1, signed ? "diverging" : "sequential",
    (j, l) => of ? zero + (1 - zero) * of.x[l][j] / largest : null);
  paint($("map-p"), K, L + 1, "sequential", (label, l) => of ? of.probabilities[l][label] : null);
  $("means").querySelectorAll("i").forEach((bar, l) => {
    bar.style.transform = `scaleY(${of ? clip(gates[l] / scales.mean) : 0})`;
  });
  $("means").querySelectorAll("b").forEach((tick, l) => {
    tick.hidden = !of;
    if (of) tick.style.setProperty("--at", clip(mean(beside.T[l]) / scales.mean));
  });
  $("half").hidden = !of;
  if (of) {
    $("half").style.width = `calc(${lines} * var(--cell))`;
    $("half").firstChild.textContent = `half of the effective depth: ${upTo(lines)}`;
  }
  const described = { T: "Gates T", x: "States x", p: "Probability of each digit" };
  for (const [name, words] of Object.entries(described)) {
    $(`map-${name}`).setAttribute("aria-label", of
      ? `${words}, by layer from left to right; ${wayText(of, l)}` : `${words}: nothing drawn`);
  }
  $("means").setAttribute("aria-label", of ? `Mean gate of each layer; ${$("half").textContent}` : "Gates: nothing drawn");
  set("other", `the ${other[state.net]} net`);
  set("min_x", signed ? `≤ −${largest}` : 0);
  set("max_x", `≥ ${largest}`);
  for (const radio of document.getElementsByName("net")) radio.checked = radio.value === state.net;

  $("step").value = l;
  $("step").setAttribute("aria-valuetext", place);
  $("where").textContent = place;
  return $("way-says").textContent = of ? wayText(of, l) : BLANK;
}

const placeOf = l => l === 0 ? "after the plain layer" : `after layer ${l} of ${L}`;

function showState() {                                         // the chosen one, in numbers
  const of = examine()?.[state.net];
  $("read-where").textContent = placeOf(state.layer);
  showReadings(of, state.layer);
  showDepths(of);
  showUnit(of);
}

// How many of the first layers have half of the effective depth.
function half(gates) {
  let total = 0;
  return gates.findIndex(gate => (total += gate) >= sum(gates) / 2) + 1;
}

const upTo = l => l === 1 ? "layer 1" : `layers 1 to ${l}`;

function wayText(of, l) {
  const open = l ? [...of.T[l - 1]].filter(T_j => T_j > 0.5).length : 0;
  const opened = l === 0 ? "No gate yet." : `${open} of ${D} gates ${open === 1 ? "is" : "are"} more than half open.`;
  const label = of.readings[l], stays = of.since === 0 ? "the plain layer" : `layer ${of.since}`;
  return `${opened} Read here, it is ${a(label)} (${percent(of.probabilities[l][label])}). ` +
    `From ${stays} on, it stays ${a(of.best)}.`;
}

function showReadings(of, l) {
  [...$("classes").tBodies[0].rows].forEach((row, label) => {
    row.className = of && label === of.readings[l] ? "best" : "";
    row.querySelector(".bar").style.transform = `scaleX(${of ? of.probabilities[l][label] : 0})`;
    row.querySelector(".figure").textContent = of ? percent(of.probabilities[l][label]) : "–";
    row.lastElementChild.textContent = of ? fixed(of.logits[l][label], 1) : "–";
  });
}

function showDepths(of) {
  const { mean, sd } = data.effective_depth[state.net], place = value => `${100 * clip(value / scales.depth)}%`;
  const depth = of && effectiveDepth(of.T);
  $("your-depth").textContent = of ? depth.toFixed(2) : "–";
  [...$("depths").tBodies[0].rows].forEach((row, label) => {
    row.className = of && label === of.best ? "best" : "";
    row.querySelector(".figure").textContent = mean[label].toFixed(2);
    const [low, high] = [mean[label] - sd[label], mean[label] + sd[label]].map(place);
    Object.assign(row.querySelector(".spread").style, { left: low, right: `calc(100% - ${high})` });
    row.querySelector(".dot").style.left = place(mean[label]);
    row.querySelector(".yours").hidden = !of;
    if (of) row.querySelector(".yours").style.left = place(depth);
  });
}

function showUnit(of) {
  const l = Math.max(state.layer, 1) - 1, j = state.unit, net = nets[state.net];
  [$("at-layer").value, $("at-unit").value] = [l + 1, j + 1];
  $("unit-equation").textContent = of ? equation(of, l, j) : BLANK;
  if (!$("unit").open) return;
  $("pixels").hidden = l > 0;
  if (l === 0) paintWeights($("W_in"), net.input, j, side);
  branches.forEach((branch, g) => paintWeights($(`W_${branch}`), net.blocks[l], g * D + j, 10));
}

const formula = word => block.formula.replace(/\{(.)\}/gu, (_, name) => word(name));

function equation({ x, z }, l, j) {
  const values = { x: x[l][j], ...Object.fromEntries(branches.map((branch, g) => [branch, z[l][g * D + j]])) };
  const inserted = formula(name => values[name] < 0 ? `(${fixed(values[name])})` : fixed(values[name]));
  return `y = ${formula(name => name)}\n= ${inserted} = ${fixed(x[l + 1][j])}`;
}

// A row of W as an image, white where a weight is 0.
function paintWeights(canvas, { columns, W }, row, width) {
  const weights = W.subarray(row * columns, (row + 1) * columns - 1);
  const largest = Math.max(...weights.map(Math.abs)) || 1;
  const at = (y, x) => y * width + x;
  paint(canvas, Math.ceil(weights.length / width), width, "diverging",
    (y, x) => at(y, x) < weights.length ? 0.5 + 0.5 * weights[at(y, x)] / largest : null);
}

function goTo(layer, unit = state.unit) {
  state.layer = within(layer, L + 1);
  state.unit = within(unit, D);
  ask("way", "state");
  return state.layer ? `layer ${state.layer}` : "plain layer";
}

function makeWay() {
  const style = document.body.style;
  style.setProperty("--depth", L);
  style.setProperty("--units", D);
  for (let l = 0; l < L; l++) {
    const left = `left: calc(${l + 1} * var(--cell))`;
    $("means").insertAdjacentHTML("beforeend", `<i class="bar" style="${left}"></i><b style="${left}"></b>`);
  }
  $("means").insertAdjacentHTML("beforeend", '<div class="half" id="half"><span></span></div>');
  $("digits").innerHTML = range(K).map(label => `<span>${label}</span>`).join("");
  for (const name of ["T", "x", "p"]) {
    const map = $(`map-${name}`), strip = map.parentElement;
    strip.classList.add("way-map");
    if (name !== "p") strip.insertAdjacentHTML("beforeend", '<div class="unit-mark"></div>');
    onScrub(strip, event => goTo(column(event, map, L + 1), name === "p" ? state.unit : row(event, map, D)));
    paint($(`scale-${name}`), 1, 256, name === "x" && signed ? "diverging" : "sequential", (_, i) => i / 255);
  }
  onScrub($("means"), event => goTo(column(event, $("means"), L + 1)));
  for (const [table, cells] of [
    ["classes", '<td><span class="track"><i class="bar"></i></span><span class="figure"></span></td><td></td>'],
    ["depths", `<td><span class="track"><i class="spread"></i><i class="dot"></i><i class="yours"></i></span>
      <span class="figure"></span></td>`],
  ]) $(table).tBodies[0].innerHTML = range(K).map(label => `<tr><th scope="row">${label}</th>${cells}</tr>`).join("");

  $("pixels").insertAdjacentHTML("beforebegin", branches.map(branch =>
    `<div><canvas id="W_${branch}" role="img" aria-label="Weights of ${branch}"></canvas>
      <small>W<sub>${branch}</sub>: of <var>${branch}</var>, on the units of the layer before</small></div>`).join(""));

  let playing = 0;
  const stop = () => {
    clearInterval(playing);
    playing = 0;
    $("play").textContent = "Play";
  };
  $("play").addEventListener("click", () => {
    if (playing) return stop();
    if (state.layer === L) goTo(0);
    $("play").textContent = "Pause";
    playing = setInterval(() => {
      goTo(state.layer + 1);
      if (state.layer === L) stop();
    }, Math.max(8000 / L, 120));
  });
  for (const [id, by] of [["back", -1], ["next", 1]]) {
    $(id).addEventListener("click", () => { stop(); goTo(state.layer + by); });
  }
  $("step").max = L;
  $("step").addEventListener("input", () => { stop(); goTo(Number($("step").value)); });
  for (const input of document.getElementsByName("net")) {
    input.addEventListener("change", () => { state.net = input.value; ask("way", "state"); });
  }
  [$("at-layer").max, $("at-unit").max] = [L, D];
  for (const name of ["at-layer", "at-unit"]) {
    $(name).addEventListener("change", () => goTo(Math.max($("at-layer").value, 1), $("at-unit").value - 1));
  }
  $("unit").addEventListener("toggle", () => show("state"));
}

