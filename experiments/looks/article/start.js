function setScales() {
  const seen = Object.entries(nets).map(([name, net]) => [name, samples.map(pixels => forward(net, asInputs(pixels), allOpen))]);
  for (const [name, of] of seen) {
    const states = of.flatMap(({ x }) => x.flatMap(y => [...y])), sizes = states.map(Math.abs).sort((a, b) => a - b);
    signed ||= states.some(y => y < 0);
    scales[name] = Number(sizes[Math.floor(0.98 * sizes.length)].toPrecision(2)) || 1;
  }
  const both = seen.flatMap(([, of]) => of), { mean: means, sd } = data.effective_depth.trained;
  scales.mean = Math.ceil(20 * Math.max(0.01, ...both.flatMap(({ T }) => T.map(mean)))) / 20;
  scales.depth = Math.ceil(Math.max(0.01, ...both.map(({ T }) => effectiveDepth(T)),
    ...means.map((value, label) => value + 2 * sd[label])));
}

// ------------------------------------------------------------------------------- what the text says

function tellNet() {
  const { trained, untrained } = data.effective_depth, { dataset, classes } = data, used = sum(trained.layers);
  tell({
    built: L + 1, units: D, block: data.config.block, dataset,
    test_score: percent(data.test_score), max_mean: scales.mean, max_depth: scales.depth, depth_trained: used.toFixed(1), depth_untrained: sum(untrained.layers).toFixed(1),
    half_trained: upTo(half(trained.layers)), half_untrained: upTo(half(untrained.layers)),
    used: percent(used / L, 0),
  });
  all(".depth").forEach(element => { element.textContent = L; });
  $("formula").append(...block.formula.split(/\{(.)\}/u).map((part, i) =>
    i % 2 ? Object.assign(document.createElement("var"), { textContent: part }) : part));
  $("own-classes").hidden = data.of_digits;
  $("own-classes").textContent = `It was not trained on digits but on ${dataset}: a digit that it sees is the number of a class` +
    (classes.length ? `, where ${listed(classes.map((name, label) => `${label} is ${name}`))}.` : ".");
  $("own-block").hidden = data.config.block === "highway";
}

// ------------------------------------------------------------------------------------------- the start

if (!window.DecompressionStream) $("failure").textContent = "This page needs a browser of 2023 or later.";
const flat = await unpack(data.weights);
Object.assign(nets, { trained: matrices(flat, data.config, G), untrained: untrained(flat.length, data.seed) });
setScales();
pads.push(...all("[data-pad]").map(makePad));
makeDrawing();
makeLab();
makeWay();
makeClosing();
tellNet();
all("#sweep, .sweep-only").forEach(element => { element.hidden = !data.sweep; });
if (data.sweep) { makeSweep(); tellSweep(); }
all(".measured-only").forEach(element => { element.hidden = !data.lesions; });
if (data.lesions) { makeLesions(); tellLesions(); }
$("main").hidden = false;
$("about").textContent = `The net: ${L} ${data.config.block} layers of ${D} units (${data.config.activation}) after a plain one; ` +
  `test accuracy on ${data.dataset} ${percent(data.test_score, 2)}. Its weights are rounded to 16 bits here. ` +
  `From ${data.sources.join(", ").replace(/(sha256 .{12})\w+/g, "$1…")}`;
pick(argmax(samples.map(pixels => {                            // the image whose answer comes last
  state.pixels = pixels;
  return examine().trained.since;
})));
speaker = null;                                                // nothing was asked for yet
showAll();
all("[data-part]").forEach(part => observer.observe(part));
$(location.hash.slice(1))?.scrollIntoView();
for (const slider of document.querySelectorAll("input[type=range]")) {  // a swipe that scrolls leaves it as it was
  let before;
  slider.addEventListener("pointerdown", () => before = slider.value);
  slider.addEventListener("pointercancel", () => {
    slider.value = before;
    slider.dispatchEvent(new Event("input"));
  });
}
window.explorer = { state, nets, runs, forward, asInputs, asDigit, show: showAll, pads };  // for the tests
