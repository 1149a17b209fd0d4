// ------------------------------------------------------------------------------- the drawing and its answer

const PAUSE = 1500;                                            // ms without a stroke, after which a drawing is finished

function makePad(root) {
  const answer = root.querySelector(".answer"), where = root.dataset.pad;
  root.innerHTML = `<div class="ground"><canvas class="paper pen" role="img"></canvas></div>
    <div class="side"><div class="row"><button type="button" class="clear" aria-label="Clear ${where}">Clear</button>
      <canvas class="seen pen" role="img" aria-label="The image that the network is given"></canvas>
      <span class="note">the net’s<br>input</span></div></div>
    <div class="samples" role="toolbar" aria-label="Typical test images for ${where}"></div>`;
  root.querySelector(".side").prepend(answer);
  const [paper, small, buttons, ground] = [".paper", ".seen", ".samples", ".ground"].map(name => root.querySelector(name));
  const n = paper.width = paper.height = 10 * side;
  const pen = paper.getContext("2d", { willReadFrequently: true });
  Object.assign(pen, { lineWidth: Math.max(n / 12, 13), lineCap: "round", lineJoin: "round", imageSmoothingEnabled: false });
  let last = null, own = null, place = null, pause = 0;        // own: the pixels that this paper shows
  const finish = finished => {                                 // pale: the next stroke begins anew
    clearTimeout(pause);
    ground.classList.toggle("finished", finished);
  };
  const stroke = event => {
    pen.beginPath();
    pen.moveTo(...last);
    pen.lineTo(...(last = place(event)));
    pen.stroke();
  };
  const look = () => {
    state.pixels = own = asDigit(pen.getImageData(0, 0, n, n).data, n);
    ask("draw", "way", "state", "close");
  };
  paper.addEventListener("pointerdown", event => {
    if (event.button) return;
    paper.setPointerCapture(event.pointerId);
    const { left, top, width } = paper.getBoundingClientRect();  // once a stroke: it may lay the page out anew
    place = event => [event.clientX - left, event.clientY - top].map(at => at * n / width);
    if (ground.classList.contains("finished")) pen.clearRect(0, 0, n, n);
    finish(false);
    last = place(event);
    drawing = true;
    stroke(event);
    look();
  });
  paper.addEventListener("pointermove", event => {
    if (!last) return;
    (event.getCoalescedEvents?.() ?? [event]).forEach(stroke);
    look();
  });
  for (const end of ["pointerup", "pointercancel"]) paper.addEventListener(end, () => {
    last = null;
    drawing = false;
    pause = setTimeout(finish, PAUSE, true);
    ask("draw", "way", "state", "close");                               // what the stroke left for later, and its words
  });
  root.querySelector(".clear").addEventListener("click", () => {
    finish(false);
    pen.clearRect(0, 0, n, n);
    look();
  });
  samples.forEach((pixels, label) => {
    const button = document.createElement("button"), picture = document.createElement("canvas");
    button.type = "button";
    button.className = "pen";
    button.setAttribute("aria-label", `Test image of ${a(label)}`);
    paintInk(picture, pixels);
    button.append(picture);
    button.addEventListener("click", () => pick(label));
    buttons.append(button);
  });
  rove(buttons);
  return {
    pen, look,
    show(label) {                                              // what was drawn or picked elsewhere, and what the net is given
      if (drawing && own !== state.pixels) return;
      paintInk(small, state.pixels);
      paper.setAttribute("aria-label", label);
      ground.classList.toggle("empty", !state.pixels.some(Boolean));
      if (own === state.pixels) return;
      own = state.pixels;
      finish(true);
      pen.clearRect(0, 0, n, n);
      pen.drawImage(small, 0, 0, n, n);
    },
  };
}

function pick(label) {
  state.pixels = samples[label];
  ask("draw", "way", "state", "close");
}

// The answer with the chosen layers closed. It alone follows a stroke.
function showDrawing() {
  const of = state.pixels.some(Boolean) ? read(nets.trained, asInputs(state.pixels), state.closed) : null;
  for (const pad of pads) pad.show(of ? `Drawing, taken for ${a(of.best)}` : "Empty drawing area");
  set("best", of ? of.best : "–");
  set("sure", of ? `probability ${percent(of.probability)}` : "nothing drawn");
  const n = closedFrom("last"), closed = state.closed.filter(Boolean).length;
  $("closed").value = n;
  set("closed", `${n} of ${L}`);
  const found = drawing || !state.closing || !of ? "" : closed > n ? `Further down, ${count(closed - n, "more layer")} ${closed - n === 1 ? "is" : "are"} closed.` :
    spared(examine().trained);
  $("spared").textContent = state.closing || !of ? found : "How many layers can you close before the answer changes?";
  return (of ? `The trained net${closed ? ` with ${count(closed, "layer")} closed` : ""} sees ${a(of.best)}, ${percent(of.probability)}.` :
    BLANK) + (found && ` ${found}`);
}

function spared({ best, since }) {                             // how many layers can be closed with the same answer
  if (since === L) return "The answer changes as soon as the last layer is closed.";
  return `It stays ${a(best)} ${since ? `with up to ${L - since} of ${L}` : `even with all ${L}`} layers closed from the back.`;
}

function makeDrawing() {
  $("closed").max = L;
  $("closed").addEventListener("input", () => closeFrom("last", Number($("closed").value), "draw", "close"));
}
