// ------------------------------------------------------------------- 1. Break it: what logs say of larger nets

const KINDS = {                                                // of nets: the class that colours them, their name
  "highway, tuned": ["highway", "tuned highway nets"], highway: ["highway untuned", "highway nets in one setting"],
  "plain, orthogonal": ["plain orthogonal", "tuned plain nets with orthogonal weights"],
  "plain, tuned": ["plain", "tuned plain nets"], plain: ["plain untuned", "plain nets in one setting"],
};
const STRETCHED_TICKS = [10, 50, 80, 90, 95, 98, 99];
const COLUMNS = ["", ", tuned", ", orthogonal"];

function isBroken(kind, i) {                                   // at the depth of index i
  const { nets: { [kind]: { means } }, margin } = data.sweep;
  return means[i][0] < means[0][0] - margin;
}

function showSweep() {
  const { depths, nets: of, shallow: [shallow], shallow_blocks } = data.sweep, i = state.depth, blocks = depths[i];
  all("[data-now=blocks]").forEach(element => { element.textContent = blocks; });
  $("depth").value = i;
  $("depth").setAttribute("aria-valuetext", `${blocks} blocks`);

  const places = range(depths.length), last = depths.length - 1;
  const best = Math.max(...Object.keys(KINDS).flatMap(kind => of[kind].seeds.flat()));
  const top = Math.min((best + 100) / 2, 99.99);               // intervals of few seeds are cut off there and at 0
  const stretched = accuracy => -Math.log(100 - Math.min(Math.max(accuracy, 0), top));  // equal steps: equal ratios of error
  const plot = chart([0, last], [0, top], stretched);
  $("accuracies").innerHTML = [
    plot.axes(places, STRETCHED_TICKS.filter(tick => tick < top), place => depths[place]), plot.line(i, 0, i, top, "here"),
    ...Object.entries(KINDS).map(([kind, [color]]) => [
      ...of[kind].seeds.flatMap((accuracies, place) => accuracies.map(y => plot.dot(place, y, `${color} seed`))),
      plot.curve(of[kind].means.map(([y], place) => [place, y]), `${color} mean`),
      ...of[kind].means.map(([y, half], place) => plot.line(place, y - half, place, y + half, color.split(" ")[0])),
      plot.dot(i, of[kind].means[i][0], `${color} now`),
    ].join("")),
    plot.line(0, shallow, last, shallow, "level best"),
    plot.ends([...Object.entries(KINDS).map(([words, [kind]]) =>
      ({ y: of[words].means[last][0], words, kind: kind.split(" ")[0] })),
      { y: shallow, words: `≤ ${shallow_blocks} blocks`, kind: "best" }]),
  ].join("");

  $("readout").innerHTML = ["plain", "highway"].map(kind => `<tr class="${kind}"><th scope="row">${kind}</th>` +
    COLUMNS.map(column => `<td>${withHalf(of[kind + column].means[i])}</td>`).join("") + "</tr>").join("");
  const broken = Object.keys(KINDS).filter(kind => isBroken(kind, i)), names = kinds => listed(kinds.map(kind => KINDS[kind][1]));
  return $("broken-says").textContent = broken.length
    ? `At ${blocks} blocks, ${names(broken)} are broken.` : `At ${blocks} blocks, no kind of net is broken.`;
}

function makeSweep() {
  const { depths, nets: of } = data.sweep, kinds = ["plain", "highway"].flatMap(kind => COLUMNS.map(column => kind + column));
  $("depth").max = depths.length - 1;
  $("depth").addEventListener("input", () => {
    state.depth = Number($("depth").value);
    ask("sweep");
  });
  $("all-depths").innerHTML = `<thead><tr><th scope="col">blocks</th>${kinds.map(kind =>
    `<th scope="col">${kind}</th>`).join("")}</tr></thead>` + depths.map((depth, i) => `<tr><th scope="row">${depth}</th>` +
    kinds.map(kind => `<td>${withHalf(of[kind].means[i])}</td>`).join("") + "</tr>").join("");
}

function tellSweep() {
  const { dataset, config, seeds, seed_range, margin, tried, depths, nets: of, leads, chance } = data.sweep;
  const { shallow, shallow_blocks, shallow_units } = data.sweep;
  const broken = kind => {
    const first = depths.find((_, i) => isBroken(kind, i));
    return first ? count(first, "block") : "no depth shown";
  };
  tell({
    sweep_data: dataset, sweep_train: config.n_train.toLocaleString("en"), sweep_test: config.n_test.toLocaleString("en"),
    sweep_units: config.hidden, sweep_epochs: config.epochs, sweep_seeds: seeds,
    sweep_range: seed_range.replace("-", "–"), margin, tried, chance: percent(chance / 100, 0),
    broken_plain: broken("plain"), broken_tuned: broken("plain, tuned"), broken_highway: broken("highway"),
    deepest: depths.at(-1), lead: withHalf(leads.tuned), lead_untuned: withHalf(leads.untuned),
    shallow: `${withHalf(shallow)}\u00a0%`, shallow_blocks, shallow_units, lead_orthogonal: withHalf(leads.orthogonal), plain_deepest: `${withHalf(of.plain.means.at(-1))}\u00a0%`,
  });
}
