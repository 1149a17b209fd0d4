// ------------------------------------------------------------------------------ 1. Break it: nets that train here

const lab = data.lab, runs = [];                               // of the visitor, in their order
const choice = { depth: 5, block: "plain", init: "uniform", gate_bias: -4, lr: 0.005 };
const NAMES = { uniform: "uniform weights", glorot: "normalised weights", orthogonal: "orthogonal weights" };
const LEARNED = 0.2;                                           // accuracy, twice that of guessing: below it a net is broken
const MOST = 10;                                               // runs in the picture
const trainer = URL.createObjectURL(new Blob([$("training").textContent]));
let worker = null;

const gateBias = of => of.block === "highway" ? of.gate_bias : null;
const isSame = (some, others) => gateBias(some) === gateBias(others) &&
  ["depth", "block", "init", "lr"].every(name => some[name] === others[name]);
const nameNet = of => [`${of.block} net of ${count(of.depth, "block")}`, NAMES[of.init],
  ...(gateBias(of) === null ? [] : [`gate bias ${fixed(of.gate_bias, 0)}`]), `rate ${of.lr}`].join(", ");
const loggedLike = some => lab.logged.filter(of => isSame(of, some)).flatMap(of => of.curves);  // scores of each, by epoch
const ended = ({ scores }) => scores.length > lab.config.epochs;
const right = ({ scores }) => percent(scores.at(-1));
const judged = run => right(run) + (run.scores.at(-1) < LEARNED ? ", hardly more than guessing" : "");

async function unpackDigits() {                                // rows of inputs, and the classes, in both halves
  const bytes = await inflate(lab.digits), n = bytes.length / (lab.config.d_in + 1), pixels = n * lab.config.d_in;
  const half = (from, to) => ({
    x: Float64Array.from(bytes.subarray(from * lab.config.d_in, to * lab.config.d_in), pixel => pixel / 127.5 - 1),
    y: bytes.slice(pixels + from, pixels + to),
  });
  return { train: half(0, lab.n_train), test: half(lab.n_train, n) };
}

function stopTraining() {
  worker?.terminate();
  worker = null;
}

async function startTraining() {
  stopTraining();
  const run = { ...choice, seed: runs.length, scores: [], started: performance.now() };
  runs.push(run);
  ask("lab");
  const mine = worker = new Worker(trainer);
  mine.onmessage = ({ data: score }) => {
    run.scores.push(score);
    run.seconds = (performance.now() - run.started) / 1000;
    if (ended(run)) stopTraining();
    ask("lab");
  };
  lab.samples ??= await unpackDigits();
  mine.postMessage([{ ...lab.config, ...choice, seed: run.seed }, lab.samples]);
}

function showChoice() {
  $("lab-depth").value = choice.depth;
  $("lab-bias").value = choice.gate_bias;
  $("lab-rate").value = choice.lr;
  set("lab-depth", count(choice.depth, "block"));
  set("lab-bias", fixed(choice.gate_bias, 0));
  $("lab-bias").disabled = choice.block !== "highway";
  for (const name of ["block", "init"]) {
    for (const radio of document.getElementsByName(`lab-${name}`)) radio.checked = radio.value === choice[name];
  }
}

function showLab() {
  showChoice();
  const { epochs } = lab.config, plot = chart([0, epochs], [0, 100]), current = runs.at(-1), shown = runs.slice(-MOST);
  const kind = run => run.block + (run.init === "orthogonal" ? " untuned" : "");
  const points = scores => scores.map((score, epoch) => [epoch, 100 * score]);
  const logged = runs.some(run => isSame(run, choice)) ? loggedLike(choice) : [];  // the visitor sees it first
  $("lab-curves").innerHTML = plot.axes([0, epochs], accuracyTicks, epoch => epoch ? `epoch ${epoch}` : "0") +
    plot.line(0, 10, epochs, 10, "level") + plot.text(epochs, 10, "guessing", "", 0, "-0.4em", "end") +
    logged.map(scores => plot.curve(points(scores), `${choice.block} faint`)).join("") +
    shown.filter(run => run.scores.length).map(run => plot.curve(points(run.scores), `${kind(run)} ${run === current ? "mean" : "past"}`) +
      plot.dot(...points(run.scores).at(-1), `${run.block}${run === current ? " now" : ""}`)).join("") +
    plot.ends(shown.filter(run => run.scores.length).map(run =>
      ({ y: 100 * run.scores.at(-1), words: `${runs.indexOf(run) + 1}: ${run.block} ${run.depth}`, kind: run.block })));
  const number = runs.length, words = !current ? "No net has been trained yet." :
    ended(current) ? `Net ${number}, a ${nameNet(current)}: ${judged(current)}, in ${current.seconds.toFixed(1)} seconds.` :
      `Net ${number}, a ${nameNet(current)}: ${worker ? "epoch" : "stopped at epoch"} ${Math.max(current.scores.length - 1, 0)} of ${epochs}` +
      (current.scores.length ? `, ${right(current)}` : "");
  $("lab-says").textContent = words;
  $("lab-curves").setAttribute("aria-label", `Test accuracy by epoch of ${count(runs.length, "net")}; the table below has the last of each`);
  $("lab-stop").disabled = !worker;
  $("lab-logged").textContent = logged.length ? `Faint: ${logged.length} nets of the chosen setting that were trained before.` : "";
  $("lab-runs").innerHTML = `<thead><tr>${["net", "blocks", "kind", "initial weights", "gate bias", "rate", "test accuracy"].map(name =>
    `<th scope="col">${name}</th>`).join("")}</tr></thead>` + runs.map((run, i) => `<tr class="${run.block}"><th scope="row">${i + 1}</th>` +
    [run.depth, run.block, NAMES[run.init].split(" ")[0], gateBias(run) === null ? "" : fixed(run.gate_bias, 0), run.lr,
      !run.scores.length ? "" : right(run) + (ended(run) ? "" : ` (epoch ${run.scores.length - 1})`)].map(cell => `<td>${cell}</td>`).join("") + "</tr>").join("");
  for (const step of all("#steps details")) {
    const found = [...step.querySelectorAll("button")].map(button => {
      const run = runs.findLast(run => ended(run) && isSame(run, JSON.parse(button.dataset.net)));
      const of = run && loggedLike(run).map(scores => scores.at(-1));
      return run && `${button.textContent.replace("Train ", "")}: ${judged(run)}` +
        `${of.length ? ` (${of.length} such nets, trained before: ${percent(Math.min(...of))} to ${percent(Math.max(...of))})` : ""}.`;
    });
    step.querySelector(".found").textContent = found.filter(Boolean).join(" ");
  }
  if (!current || !isSame(current, choice)) return "";         // the control that was moved speaks for itself
  return worker ? `Net ${number} is in training.` : words;
}

function makeLab() {
  const { hidden, epochs, batch_size } = lab.config;
  tell({
    lab_units: hidden, lab_epochs: epochs, lab_batch: batch_size, lab_train: lab.n_train.toLocaleString("en"), lab_test: lab.n_test,
  });
  const choose = (name, value) => {
    choice[name] = value;
    ask("lab");
  };
  for (const [id, name] of [["lab-depth", "depth"], ["lab-bias", "gate_bias"], ["lab-rate", "lr"]]) {
    $(id).addEventListener("input", () => choose(name, Number($(id).value)));
  }
  for (const name of ["block", "init"]) {
    for (const radio of document.getElementsByName(`lab-${name}`)) {
      radio.addEventListener("change", () => choose(name, radio.value));
    }
  }
  for (const button of all("#steps button")) button.addEventListener("click", () => {
    Object.assign(choice, JSON.parse(button.dataset.net));
    startTraining();
    $("lab-chart").scrollIntoView({ block: "nearest" });       // below the steps on a small screen
  });
  $("lab-train").addEventListener("click", startTraining);
  $("lab-stop").addEventListener("click", () => {
    stopTraining();
    ask("lab");
  });
  $("lab-clear").addEventListener("click", () => {
    stopTraining();
    runs.length = 0;
    ask("lab");
  });
}
