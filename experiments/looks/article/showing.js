// -------------------------------------------------------------------------------- what is shown, and when
// `state` is all that the visitor chooses; each part of the page is drawn anew from it.

const state = {
  net: "trained", pixels: new Uint8Array(d_in), layer: 0, unit: 0, closed: new Array(L).fill(false),
  closing: false,                                              // whether the visitor has closed a layer yet
  depth: 0,                                                    // index of the sweep's depths
};
const nets = {}, scales = {}, pads = [];
let signed = false;                                            // whether there are states below 0
const samples = data.pixels.map(pixels => Uint8Array.from(pixels)), allOpen = new Array(L).fill(false);
const other = { trained: "untrained", untrained: "trained" };
const BLANK = "Nothing drawn: draw or pick a digit.";

const shows = { draw: showDrawing, lab: showLab, way: showWay, state: showState, close: showClosing };  // each returns its finding in words
if (data.sweep) shows.sweep = showSweep;
const stale = new Set(Object.keys(shows)), inView = new Set();
let speaker = null, asked = false, drawing = false;            // drawing: a stroke is under way, and only the answer follows

// Draw parts anew, each in a frame of its own and no sooner than it is in view. The first is the one that is spoken.
function ask(...names) {
  speaker = names[0];
  for (const name of names) stale.add(name);
  showSoon();
}

function showSoon() {
  if (!asked) requestAnimationFrame(showNext);
  asked = true;
}

function showNext() {
  asked = false;
  const next = Object.keys(shows).find(name => stale.has(name) && (name === "draw" || (inView.has(name) && !drawing)));
  if (!next) return;
  show(next);
  showSoon();
}

function show(name) {
  stale.delete(name);
  const words = shows[name]();
  if (name === speaker && !drawing) speak(words);
}

const showAll = () => { for (const name of [...stale]) show(name); };

const observer = new IntersectionObserver(entries => {
  for (const { target, isIntersecting } of entries) inView[isIntersecting ? "add" : "delete"](target.dataset.part);
  showSoon();
}, { rootMargin: "25%" });                                     // shortly before it comes into view

let speaking = 0;
function speak(text) {                                         // once the visitor pauses
  clearTimeout(speaking);
  speaking = setTimeout(() => {
    if ($("spoken").textContent !== text) $("spoken").textContent = text;  // else the same would be said again
  }, 700);
}

// What both nets make of the drawing; null if nothing is drawn. A state's reading is what the output layer makes of it:
// the logits with all later layers closed.
let seen = null, seenPixels = null;
function examine() {
  if (seenPixels === state.pixels) return seen;
  seenPixels = state.pixels;
  const image = asInputs(state.pixels);
  return seen = !state.pixels.some(Boolean) ? null : Object.fromEntries(Object.entries(nets).map(([name, net]) => {
    const cache = forward(net, image, allOpen);
    const logits = cache.x.map(x => [...affine(net.output, x)]), readings = logits.map(argmax), best = readings[L];
    return [name, {
      ...cache, readings, best, logits, probabilities: logits.map(softmax),
      since: readings.findLastIndex(label => label !== best) + 1,  // the state from which on the answer stays
    }];
  }));
}

// ------------------------------------------------------------------------------------------- words

function set(name, words) {
  for (const element of all(`[data-is="${name}"]`)) {
    if (element.textContent !== String(words)) element.textContent = words;  // else the browser would lay it out anew
  }
}

function tell(facts) {
  for (const [name, words] of Object.entries(facts)) set(name, words);
}

// ---------------------------------------------------------------------------------------- pictures

const colors = Object.fromEntries(Object.entries(data.colors).map(([name, table]) =>
  [name, table.match(/.{6}/g).map(hex => [0, 2, 4].map(i => parseInt(hex.slice(i, i + 2), 16)).concat(255))]));

// Paint value(row, column), from 0 to 1, in colours of that name; null stays transparent.
function paint(canvas, rows, columns, name, value) {
  [canvas.width, canvas.height] = [columns, rows];
  const image = new ImageData(columns, rows), table = colors[name];
  for (let row = 0; row < rows; row++) for (let column = 0; column < columns; column++) {
    const share = value(row, column), color = table[Math.round(clip(share) * (table.length - 1))];
    if (share !== null) image.data.set(color, 4 * (row * columns + column));
  }
  canvas.getContext("2d").putImageData(image, 0, 0);
}

function paintInk(canvas, pixels) {                            // black, as opaque as the pixel is bright
  [canvas.width, canvas.height] = [side, side];
  const image = new ImageData(side, side);
  pixels.forEach((pixel, i) => { image.data[4 * i + 3] = pixel; });
  canvas.getContext("2d").putImageData(image, 0, 0);
}

// ---------------------------------------------------------------------------------- hands and keys

// Call act(event, isFirst) for a tap and along a drag. A vertical swipe scrolls (touch-action: pan-y) and does nothing.
// What act returns is shown above a finger, which hides what it touches.
function onScrub(element, act) {
  let down = null, begun = false;
  const loupe = $("loupe");
  const touch = (event, isFirst) => {
    const words = act(event, isFirst);
    if (event.pointerType !== "touch") return;
    loupe.textContent = words;
    loupe.hidden = false;
    loupe.style.left = `${Math.min(Math.max(event.clientX, 64), innerWidth - 64)}px`;
    loupe.style.top = `${Math.max(event.clientY - 72, 8)}px`;
  };
  const begin = event => { begun = true; touch(event, true); };
  element.addEventListener("pointerdown", event => {
    if (event.button) return;
    [down, begun] = [event, false];
    element.setPointerCapture(event.pointerId);
    if (event.pointerType !== "touch") begin(event);
  });
  element.addEventListener("pointermove", event => {
    if (!down) return;
    const sideways = Math.abs(event.clientX - down.clientX), along = Math.abs(event.clientY - down.clientY);
    if (!begun && sideways > Math.max(along, 6)) begin(down);
    if (begun) touch(event, false);
  });
  element.addEventListener("pointerup", event => {
    if (down && !begun) begin(event);
    down = null;
    loupe.hidden = true;
  });
  element.addEventListener("pointercancel", () => {
    down = null;
    loupe.hidden = true;
  });
}

const column = (event, element, n) => {
  const { left, width } = element.getBoundingClientRect();
  return within((event.clientX - left) / width * n, n);
};
const row = (event, element, n) => {
  const { top, height } = element.getBoundingClientRect();
  return within((event.clientY - top) / height * n, n);
};

// Make the buttons of a group one stop of the tab key; arrows move between them.
function rove(group) {
  const buttons = [...group.children], focus = at => {
    buttons.forEach((button, i) => { button.tabIndex = i === at ? 0 : -1; });
  };
  focus(0);
  group.addEventListener("keydown", event => {
    const from = buttons.indexOf(document.activeElement), last = buttons.length - 1;
    const to = { ArrowLeft: from - 1, ArrowRight: from + 1, Home: 0, End: last }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    focus(within(to, buttons.length));
    buttons[within(to, buttons.length)].focus();
  });
}
