// -------------------------------------------------------------------------------------------- charts

// Pieces of a chart whose axes run over xs and ys; positions are shares of its area, heights follow a scale.
function chart(xs, ys, scale = y => y) {
  const share = (value, [low, high]) => `${(100 * (value - low) / (high - low)).toFixed(2)}%`;
  const [bottom, top] = ys.map(scale), height = scaled => share(scaled, [top, bottom]);
  const X = x => share(x, xs), Y = y => height(scale(y));
  const line = (x1, y1, x2, y2, kind) => `<line class="${kind}" x1="${X(x1)}" y1="${Y(y1)}" x2="${X(x2)}" y2="${Y(y2)}"/>`;
  const textAt = (x, y, words, kind, dx, dy, anchor) =>
    `<text class="${kind}" x="${x}" y="${y}" dx="${dx}" dy="${dy}" text-anchor="${anchor}">${words}</text>`;
  const text = (x, y, ...rest) => textAt(X(x), Y(y), ...rest);
  return {
    line, text,
    curve: (points, kind) => points.slice(1).map(([x, y], i) => line(...points[i], x, y, kind)).join(""),
    dot: (x, y, kind) => `<circle class="${kind}" cx="${X(x)}" cy="${Y(y)}" r="3.5"/>`,
    axes: (xTicks, yTicks, name = x => x) =>
      yTicks.map(y => line(xs[0], y, xs[1], y, "grid") + text(xs[0], y, y, "", "-0.6em", "0.3em", "end")).join("") +
      xTicks.map(x => text(x, ys[0], name(x), "", 0, "1.4em", "middle")).join(""),
    ends: curves => {                                          // names at the ends of curves, a line of text apart
      const gap = (top - bottom) / 15, sorted = [...curves].sort((a, b) => b.y - a.y);
      sorted.reduce((last, of) => of.at = Math.min(scale(of.y), last - gap), Infinity);
      sorted.reduceRight((last, of) => of.at = Math.max(of.at, last + gap), bottom - gap);
      return sorted.map(({ at, words, kind }) =>
        textAt(X(xs[1]), height(at), words, `end ${kind}`, "0.75em", "0.3em", "start")).join("");
    },
  };
}

const accuracyTicks = [0, 20, 40, 60, 80, 100];
