// Curves as SVG. All charts share one pointer: where it stands in one, the others show the same place.
const HEIGHT = 190, RIGHT = 12, TOP = 10, BOTTOM = 24, COLOURS = 8, DASHES = ["", "6 4", "2 3", "9 3 2 3"];

function svg(name, properties, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(properties || {})) if (value !== null && value !== undefined) made.setAttribute(key, value);
  for (const child of children.flat()) if (child !== null && child !== undefined) made.append(child instanceof Node ? child : document.createTextNode(plain(String(child), 200)));
  return made;
}

// Round values from one end to the other, at most about `most`.
function ticks(low, high, most = 5, whole = false) {
  const raw = Math.max(whole ? 1 : 0, (high - low) / most) || 1, power = 10 ** Math.floor(Math.log10(raw));
  const step = (whole ? [1, 2, 5, 10] : [1, 2, 2.5, 5, 10]).map((factor) => factor * power).find((candidate) => candidate >= raw * 0.999);
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-6 && found.length < 50; i++) found.push(i * step);
  return { step, values: found };
}

function short(value) {
  const size = Math.abs(value);
  if (size >= 1e6) return (value / 1e6).toPrecision(3) + "M";
  if (size >= 1e4) return (value / 1e3).toPrecision(3) + "k";
  if (size !== 0 && size < 1e-5) return value.toExponential(1);
  return String(Number(value.toPrecision(4)));
}

// The mean over `width` values around each; gaps stay gaps.
function smoothed(values, width) {
  if (width <= 1) return values;
  const half = (width - 1) / 2, made = new Array(values.length).fill(null);
  let sum = 0, count = 0, first = 0, last = -1;
  for (let i = 0; i < values.length; i++) {
    while (last < Math.min(values.length - 1, i + half)) { last++; if (values[last] !== null) { sum += values[last]; count++; } }
    while (first < i - half) { if (values[first] !== null) { sum -= values[first]; count--; } first++; }
    if (values[i] !== null && count) made[i] = sum / count;
  }
  return made;
}

// As many points as can be seen: of each stretch the lowest and the highest stay.
function thinned(points, most) {
  if (points.length <= 2 * most) return points;
  const made = [], size = points.length / most;
  for (let i = 0; i < most; i++) {
    const part = points.slice(Math.floor(i * size), Math.floor((i + 1) * size));
    let low = part[0], high = part[0];
    for (const point of part) { if (point[1] < low[1]) low = point; if (point[1] > high[1]) high = point; }
    made.push(...(low[0] < high[0] ? [low, high] : low === high ? [low] : [high, low]));
  }
  made.push(points[points.length - 1]);
  return made;
}

const pointer = { x: null, charts: new Set(), move(x) { if (x === this.x) return; this.x = x; for (const chart of this.charts) chart.point(); } };

class Chart {
  // spec: {title, note, format, low, high, lines: () => [{name, colour, dash, dots, faint, xs, values}], marks: () => [{x, text, colour}]}
  constructor(spec) {
    this.spec = spec;
    this.drawn = null;
    this.legend = element("div", { class: "legend" });
    this.box = element("div", { class: "plot" });
    this.tip = element("div", { class: "tip", role: "status", hidden: "" });
    this.warning = element("div", { class: "warnings" });
    this.root = element("figure", { class: "chart" + (spec.wide ? " wide" : ""), "data-chart": spec.key }, element("figcaption", {}, spec.title), this.legend, this.box, this.warning, spec.note ? element("p", { class: "note" }, spec.note) : null);
    this.box.append(this.tip);
    pointer.charts.add(this);
    this.inView = false;
    this.content = null;
    new ResizeObserver(() => { if (this.width !== this.box.clientWidth) this.paint(); }).observe(this.box);
    new IntersectionObserver((entries) => { this.inView = entries[entries.length - 1].isIntersecting; if (this.inView && this.stale) this.paint(); }, { rootMargin: "300px" }).observe(this.root);
  }

  // Takes what is new; the picture itself waits until it is in view.
  draw() {
    const spec = this.spec;
    const lines = spec.lines().map((line) => ({ ...line, points: line.xs.map((x, i) => [x, line.values[i]]).filter(([x, y]) => y !== null && y !== undefined && x !== null) })).filter((line) => line.points.length);
    this.root.hidden = !lines.length;
    const marks = spec.marks && lines.length ? spec.marks().filter((mark) => mark.x !== null) : [], named = lines.filter((line) => !line.faint);
    this.root.classList.toggle("alarmed", marks.length > 0);
    this.warning.replaceChildren(...marks.map((mark) => element("p", {}, element("b", {}, mark.title), " ", mark.text)));
    this.legend.replaceChildren(...named.map((line) => element("span", {}, swatch(line), element("span", { class: "text" }, line.name), " ", element("b", {}, spec.format(line.points[line.points.length - 1][1], true)))));
    this.content = { lines, marks, named };
    this.stale = true;
    if (this.inView) this.paint();
  }

  paint() {
    const width = this.width = this.box.clientWidth, spec = this.spec;
    if (!this.content || !this.content.lines.length || !width) return;
    const { lines, marks, named } = this.content;
    this.stale = false;
    let low = spec.low ?? Infinity, high = spec.high ?? -Infinity, first = Infinity, last = -Infinity;
    for (const line of lines) for (const [x, y] of line.points) {
      if (y < low) low = y; if (y > high) high = y;
      if (x < first) first = x; if (x > last) last = x;
    }
    if (spec.zero !== false && low > 0 && low < high * 0.6) low = 0;
    if (high - low <= 1e-9 * Math.max(Math.abs(high), Math.abs(low))) { const pad = Math.abs(low) * 0.1 || 1; high = low + pad; if (spec.low === undefined) low -= pad; }
    const y = ticks(low, high), top = spec.high !== undefined && high <= spec.high ? high : Math.max(high, y.values.length && high > y.values[y.values.length - 1] + 0.05 * y.step ? y.values[y.values.length - 1] + y.step : high);
    const bottom = spec.low !== undefined ? low : Math.min(low, y.values.length && low < y.values[0] - 0.05 * y.step ? y.values[0] - y.step : low);
    const marked = ticks(bottom, top).values, LEFT = 14 + 6.6 * Math.max(3, ...marked.map((value) => spec.format(value).length));
    const toY = (value) => HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (value - bottom) / (top - bottom);
    const toX = (value) => last > first ? LEFT + (width - LEFT - RIGHT) * (value - first) / (last - first) : (LEFT + width - RIGHT) / 2;
    const drawing = svg("svg", { width, height: HEIGHT, viewBox: `0 0 ${width} ${HEIGHT}`, tabindex: "0", role: "img", "aria-label": `${spec.title}. ${this.spoken(lines)} Arrow keys read values.` });
    for (const value of marked) drawing.append(svg("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: toY(value), y2: toY(value) }), svg("text", { x: LEFT - 7, y: toY(value) + 4, "text-anchor": "end" }, spec.format(value)));
    const wanted = Math.max(2, Math.floor(width / 90)), along = last > first ? ticks(first, last, wanted, spec.whole()).values : [first];
    for (const value of along) drawing.append(svg("text", { x: toX(value), y: HEIGHT - 7, "text-anchor": toX(value) > width - 24 ? "end" : "middle" }, short(value)));
    for (const line of lines) {
      const points = thinned(line.points, Math.max(60, Math.floor(width / 2)));
      const path = "M" + points.map(([px, py]) => `${toX(px).toFixed(1)} ${toY(py).toFixed(1)}`).join("L");
      if (points.length > 1) drawing.append(svg("path", { d: path, class: `line s${line.colour % COLOURS}${line.faint ? " faint" : ""}`, "stroke-dasharray": DASHES[(line.dash || 0) % DASHES.length] }));
      if ((line.dots && points.length <= 150) || points.length === 1) for (const [px, py] of points) drawing.append(svg("circle", { cx: toX(px).toFixed(1), cy: toY(py).toFixed(1), r: 3, class: `dot f${line.colour % COLOURS}` }));
    }
    for (const mark of marks) drawing.append(svg("line", { class: "alarm", x1: toX(mark.x), x2: toX(mark.x), y1: TOP, y2: HEIGHT - BOTTOM }), svg("text", { class: "alarm", x: toX(mark.x), y: TOP + 4, "text-anchor": "middle" }, "▲"));
    this.cursor = svg("g", { class: "cursor" });
    drawing.append(this.cursor);
    this.drawn = { lines: named, toX, toY, xs: [...new Set(named.flatMap((line) => line.points.map(([x]) => x)))].sort((a, b) => a - b), width };
    drawing.addEventListener("pointermove", (event) => pointer.move(this.nearest(event.clientX - drawing.getBoundingClientRect().left)));
    drawing.addEventListener("pointerleave", () => pointer.move(null));
    drawing.addEventListener("blur", () => pointer.move(null));
    drawing.addEventListener("keydown", (event) => this.key(event));
    const old = this.box.querySelector("svg"), focused = old !== null && old === document.activeElement, at = pointer.x;
    if (old) old.replaceWith(drawing); else this.box.prepend(drawing);
    if (focused) { drawing.focus({ preventScroll: true }); pointer.move(at); }
    this.point();
  }

  spoken(lines) {
    return lines.filter((line) => !line.faint).slice(0, 6).map((line) => `${plain(line.name, 60)}: ${this.spec.format(line.points[line.points.length - 1][1])} at the end.`).join(" ");
  }

  nearest(at) {
    const { xs, toX } = this.drawn;
    let best = xs[0];
    for (const x of xs) if (Math.abs(toX(x) - at) < Math.abs(toX(best) - at)) best = x;
    return best;
  }

  key(event) {
    const { xs } = this.drawn, here = pointer.x === null ? xs.length - 1 : xs.reduce((best, x, i) => Math.abs(x - pointer.x) < Math.abs(xs[best] - pointer.x) ? i : best, 0);
    const next = { ArrowLeft: here - (pointer.x === null ? 0 : 1), ArrowRight: here + 1, Home: 0, End: xs.length - 1 }[event.key];
    if (event.key === "Escape") pointer.move(null);
    if (next === undefined) return;
    event.preventDefault();
    pointer.move(xs[Math.max(0, Math.min(xs.length - 1, next))]);
  }

  point() {
    if (!this.drawn || this.root.hidden || !this.inView) return;
    const { lines, toX, toY, xs, width } = this.drawn, x = pointer.x;
    const svgFocused = this.box.matches(":hover") || this.box.contains(document.activeElement);
    this.cursor.replaceChildren();
    this.tip.hidden = true;
    if (x === null || x < xs[0] || x > xs[xs.length - 1]) return;
    this.cursor.append(svg("line", { x1: toX(x), x2: toX(x), y1: TOP, y2: HEIGHT - BOTTOM }));
    const rows = [];
    for (const line of lines) {
      const at = line.points.find(([px]) => px === x) || null;
      if (!at) continue;
      this.cursor.append(svg("circle", { cx: toX(x), cy: toY(at[1]), r: 4, class: `f${line.colour % COLOURS}` }));
      rows.push(element("div", {}, swatch(line), element("span", { class: "text" }, line.name), element("b", { title: String(at[1]) }, this.spec.format(at[1], true))));
    }
    if (!svgFocused || !rows.length) return;
    this.tip.replaceChildren(element("div", { class: "where" }, this.spec.where(x)), ...rows);
    this.tip.hidden = false;
    const left = toX(x) + 12, wide = this.tip.offsetWidth;
    this.tip.style.left = Math.max(0, left + wide > width ? toX(x) - 12 - wide : left) + "px";
  }
}

function swatch(line) { return element("span", { class: `swatch b${line.colour % COLOURS}${line.dash ? " dashed" : ""}` }); }

// A row of parts side by side, as wide as their share.
function strip(parts, format) {
  const total = parts.reduce((sum, part) => sum + part.value, 0) || 1, box = element("div", { class: "strip" });
  for (const part of parts) {
    const share = part.value / total, made = element("div", { class: `part b${part.colour % COLOURS}`, title: plain(`${part.name}: ${format(part.value)} (${percent(share)})`, 200) }, share > 0.16 ? part.name : "");
    made.style.flexGrow = String(Math.max(0, part.value));
    if (part.value > 0) box.append(made);
  }
  return box;
}

// Bars over bins: {edges, steps}.
function histogram(title, content) {
  const width = 460, height = 150, most = Math.max(1, ...content.steps), drawing = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": title });
  const slot = (width - 20) / content.steps.length, y = (value) => height - 24 - (height - 34) * value / most;
  content.steps.forEach((steps, i) => {
    const middle = (content.edges[i] + content.edges[i + 1]) / 2, kind = Math.abs(middle) < 1e-12 ? "none" : middle > 0 ? "up" : "down";
    drawing.append(svg("rect", { x: 10 + i * slot, y: y(steps), width: Math.max(1, slot - 1.5), height: Math.max(0, height - 24 - y(steps)), class: kind }, svg("title", {}, `${content.edges[i].toFixed(3)} to ${content.edges[i + 1].toFixed(3)}: ${steps} steps`)));
  });
  const ends = [content.edges[0], 0, content.edges[content.edges.length - 1]];
  ends.forEach((value, i) => drawing.append(svg("text", { x: [10, width / 2, width - 10][i], y: height - 7, "text-anchor": ["start", "middle", "end"][i] }, short(value))));
  return element("figure", { class: "chart plain" }, element("figcaption", {}, title), drawing);
}
