// -------------------------------------------------------------------------------- 3. Close layers

// How many layers in a row are closed, counted from that end.
const fromEnd = { first: i => i, last: i => L - 1 - i };
const closedFrom = end => [...range(L).map(i => state.closed[fromEnd[end](i)]), false].indexOf(false);

function showClosing() {
  const seen = examine(), closed = state.closed.filter(Boolean).length, image = seen && asInputs(state.pixels);
  const [first, last] = ["first", "last"].map(closedFrom);
  for (const [end, n] of [["first", first], ["last", last]]) {
    $(end).value = n;
    $(`${end}-count`).textContent = `${n} of ${L}`;
  }
  const now = Object.fromEntries(Object.entries(nets).map(([name, net]) => {
    if (!seen) return [name, null];
    const of = forward(net, image, state.closed), probabilities = softmax(of.logits), best = argmax(probabilities);
    return [name, { T: of.T, best, probability: percent(probabilities[best]) }];
  }));
  [...$("list").children].forEach((option, l) => {
    const T = now.trained && mean(now.trained.T[l]), is = state.closed[l] ? "closed" : "open";
    const error = data.lesions ? `, error with it alone closed ${percent(data.lesions.each[l], 2)}` : "";
    option.setAttribute("aria-selected", state.closed[l]);
    option.setAttribute("aria-label", `Layer ${l + 1}, ${is}${seen ? `, mean T ${T.toFixed(3)}` : ""}${error}`);
    option.tabIndex = l === focused ? 0 : -1;
    option.querySelector(".bar").style.transform = `scaleY(${seen ? clip(T / scales.mean) : 0})`;
  });
  $("lesions").querySelectorAll("circle").forEach((dot, l) => dot.classList.toggle("closed", state.closed[l]));

  const layers = closed === 0 ? "all layers open" : closed === L ? `all ${L} layers closed` : `${count(closed, "layer")} closed`;
  for (const [name, of] of Object.entries(now)) {
    const before = seen?.[name].best, same = closed === 0 ? "no layer is closed yet" :
      of?.best === before ? "as with all layers open" : `${a(before)} with all layers open`;
    $(`verdict-${name}`).innerHTML = `<small>${name} net, ${layers}</small>` +
      (of ? `<strong>${of.best}</strong> ${of.probability}<small>${same}</small>` : "<strong>–</strong> nothing drawn");
  }
  $("answer-says").textContent = !seen ? BLANK : !state.closing ? "Close some layers, and see whether the answer changes." :
    seen.answer ??= answer(seen.trained);
  const found = data.lesions ? $("measured").textContent = measured(closed, first, last) : "";
  if (data.lesions) showClosings(first, last, closed);
  return (now.trained ? `${layers}: the trained net sees ${a(now.trained.best)}, the untrained net ${a(now.untrained.best)}. ` :
    `${BLANK} `) + found;
}

function answer({ best, since }) {
  const image = asInputs(state.pixels), frontClosed = k => forward(nets.trained, image, allOpen.map((_, l) => l < k));
  const spared = {                                             // how many layers can be closed with the same answer
    last: L - since,
    first: range(L).find(k => argmax([...frontClosed(k + 1).logits]) !== best) ?? L,
  };
  const much = n => n === L ? `all ${L} layers` : n === 0 ? "not one layer" : count(n, "layer");
  return `The answer for your digit: it stays ${a(best)} with ${much(spared.last)} closed from the back, ` +
    `and with ${much(spared.first)} closed from the front.`;
}

// What the logs say of just these closed layers.
function measured(closed, first, last) {
  const { images, none, each, set_images, trained, untrained } = data.lesions;
  const said = (what, end, n) => `Measured: with ${what} closed, the trained net reads ${percent(1 - trained[end][n], 2)} of ` +
    `${count(set_images, "training image")} right, the untrained net ${percent(1 - untrained[end][n], 2)}.`;
  const layers = (which, n) => n === L ? `all ${L} layers` : n === 1 ? `the ${which} layer` : `the ${which} ${n} layers`;
  if (closed === 0) return said("no layer", "last", 0);
  if (closed === last) return said(layers("last", last), "last", last);
  if (closed === first) return said(layers("first", first), "first", first);
  const one = state.closed.indexOf(true);
  if (closed === 1) return `Measured: with layer ${one + 1} closed, the trained net misreads ${percent(each[one], 2)} of ` +
    `${count(images, "training image")}, with none closed ${percent(none, 2)}.`;
  return "This set of closed layers has not been measured. Single layers and layers in a row from either end have been.";
}

function showClosings(first, last, closed) {
  const { trained, untrained } = data.lesions, plot = chart([0, L], [0, 100]), ticks = [0, 10, 20, 30, 40].filter(n => n < 0.9 * L);
  const curves = [
    [trained.last, "highway", "from the back"], [trained.first, "highway untuned", "from the front"],
    [untrained.last, "plain", "untrained"], [untrained.first, "plain untuned", ""],
  ].map(([errors, kind, words]) => ({ points: errors.map((error, n) => [n, 100 * (1 - error)]), kind, words }));
  const marks = { last: [0, 2], first: [1, 3] }, counts = { first, last };
  const dots = Object.entries(marks).filter(([end]) => counts[end] === closed).flatMap(([end, of]) => of.map(i =>
    plot.dot(...curves[i].points[closed], `${curves[i].kind.split(" ")[0]} now`)));
  $("closings").innerHTML = plot.axes([...ticks, L], accuracyTicks) + plot.line(closed, 0, closed, 100, "here") +
    curves.map(({ points, kind }) => plot.curve(points, `${kind} mean`)).join("") + dots.join("") +
    curves.slice(0, 3).map(({ points, kind, words }, i) => plot.text(...points[labels[i].at(points)], words,
      `end ${kind.split(" ")[0]}`, 0, labels[i].dy, "middle")).join("");
}
const lowest = points => argmax(points.map(([, y]) => -y));
const labels = [{ at: () => Math.round(0.45 * L), dy: "1.5em" }, { at: lowest, dy: "1.5em" }, { at: () => Math.round(0.62 * L), dy: "-0.75em" }];

let focused = 0;                                               // the layer that the keyboard is at
function setClosed(from, to, closed) {                         // all layers between the two
  focused = within(to, L);
  for (let l = Math.min(from, focused); l <= Math.max(from, focused); l++) state.closed[l] = closed;
  state.closing ||= closed;
  ask("close", "draw");
}

function closeFrom(end, n, ...parts) {                         // n layers in a row
  for (const i of range(Math.max(n, closedFrom(end)))) state.closed[fromEnd[end](i)] = i < n;
  state.closing = true;
  ask(...parts);
}

function makeClosing() {
  const list = $("list");
  list.innerHTML = '<li role="option"><i class="bar"></i></li>'.repeat(L);
  let closing = true;                                          // whether the layers dragged over close or open
  onScrub(list, (event, isFirst) => {
    const l = column(event, list, L);
    if (isFirst) closing = !state.closed[l];
    setClosed(isFirst ? l : focused, l, closing);
    return `layer ${l + 1} ${closing ? "closed" : "open"}`;
  });
  list.addEventListener("keydown", event => {
    const from = focused, to = { ArrowLeft: from - 1, ArrowRight: from + 1, Home: 0, End: L - 1 }[event.key];
    if (to !== undefined && event.shiftKey) setClosed(from, to, state.closed[from]);
    else if (to !== undefined) focused = within(to, L);
    else if (event.key === " " || event.key === "Enter") setClosed(from, from, !state.closed[from]);
    else return;
    event.preventDefault();
    show("close");
    list.children[focused].focus();
  });
  for (const end of ["first", "last"]) {
    $(end).max = L;
    $(end).addEventListener("input", () => closeFrom(end, Number($(end).value), "close", "draw"));
  }
  $("reset").addEventListener("click", () => setClosed(0, L - 1, false));
}

function makeLesions() {
  const { none, each } = data.lesions, largest = Math.max(none, ...each) || 1, plot = chart([-0.5, L - 0.5], [-0.04, 1.04]);
  $("lesions").innerHTML = plot.line(-0.5, none / largest, L - 0.5, none / largest, "level") +
    plot.curve(each.map((error, l) => [l, error / largest]), "") + each.map((error, l) => plot.dot(l, error / largest, "")).join("");
  set("max_error", percent(largest));
  $("errors").innerHTML = '<thead><tr><th scope="col">layer closed</th><th scope="col">training error</th></tr></thead>' +
    `<tr><th scope="row">none</th><td>${percent(none, 2)}</td></tr>` +
    each.map((error, l) => `<tr><th scope="row">${l + 1}</th><td>${percent(error, 2)}</td></tr>`).join("");
}

// Scales that hold for the ten digits, and stay as they are for every other.
function tellLesions() {
  const { trained, untrained, set_images, images, spared, seeds, epochs, nets: others, first_layer, idle, idle_share, point } = data.lesions;
  tell({
    first_alone: percent(1 - trained.last[L], 0), first_untrained: percent(1 - untrained.last[L], 0),
    first_others: others && `${withHalf(first_layer)}\u00a0%`, lesion_seeds: seeds.replaceAll(",", ", "), lesion_nets: others, lesion_epochs: epochs,
    spared_last: count(spared.last, "layer"), spared_first: spared.first, point: count(100 * point, "point"),
    set_images: set_images.toLocaleString("en"), images: images.toLocaleString("en"), idle: count(100 * idle, "point"),
    one_image: images < 10000 ? ` (one image: ${fixed(100 / images)})` : "",
    needed: Math.round(L * (1 - idle_share)), kept: L - spared.last,
  });
  $("others").hidden = !others;
  $("early").hidden = spared.first >= spared.last;
}

