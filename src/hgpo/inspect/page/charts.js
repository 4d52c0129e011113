// Small charts as SVG: bars, lines, stacked bars, points. Every mark carries its exact value as a tooltip.
const PALETTE = ["#1f6fb2", "#c8641b", "#3c8f4f", "#8a4fb0", "#b0912c", "#b03a5b", "#4a8f96", "#6b6f76"];
const WIDTH = 460, HEIGHT = 220, LEFT = 46, RIGHT = 8, TOP = 8, BOTTOM = 34;

function svg(name, properties, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(properties || {})) {
    if (key === "on") for (const [event, react] of Object.entries(value)) made.addEventListener(event, react);
    else made.setAttribute(key, value);
  }
  for (const child of children.flat()) if (child !== null && child !== undefined) made.append(child);
  return made;
}

function tip(text) { return svg("title", {}, document.createTextNode(plain(text, 300))); }

function figure(title, drawing, legend, note) {
  return element("figure", {}, element("figcaption", {}, title), drawing,
    legend ? element("div", { class: "legend" }, legend.map(([name, colour]) =>
      element("span", {}, element("span", { class: "swatch", style: { background: colour } }), element("span", { class: "text" }, name)))) : null,
    note ? element("p", { class: "note" }, note) : null);
}

function frame(low, top, format) {
  const marks = ticks(low, top), high = Math.max(top, marks[marks.length - 1]);
  const drawing = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img" });
  const y = (value) => HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (value - low) / (high - low || 1);
  for (const value of marks) {
    drawing.append(svg("line", { class: "axis", x1: LEFT, x2: WIDTH - RIGHT, y1: y(value), y2: y(value) }),
      svg("text", { x: LEFT - 5, y: y(value) + 4, "text-anchor": "end" }, document.createTextNode(format(value))));
  }
  if (low < 0 && high > 0) drawing.append(svg("line", { class: "zero", x1: LEFT, x2: WIDTH - RIGHT, y1: y(0), y2: y(0) }));
  return [drawing, y];
}

// Round values from one end to just beyond the other, at most seven.
function ticks(low, high) {
  const raw = (high - low) / 5, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((candidate) => candidate >= raw);
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step < high + step * 0.999; i++) found.push(i * step);
  return found;
}

function label(drawing, x, text, anchor, limit = 18) {
  drawing.append(svg("text", { x, y: HEIGHT - BOTTOM + 15, "text-anchor": anchor || "middle" }, document.createTextNode(plain(String(text), limit))));
}

// series: [{name, values: [..]}], one bar per category and series.
function bars(title, categories, series, format, note) {
  const high = Math.max(1e-12, ...series.flatMap((s) => s.values.map((v) => v ?? 0)));
  const [drawing, y] = frame(0, high, format);
  const slot = (WIDTH - LEFT - RIGHT) / Math.max(1, categories.length), width = Math.min(40, 0.8 * slot / series.length);
  categories.forEach((category, i) => {
    const first = LEFT + slot * (i + 0.5) - width * series.length / 2;
    series.forEach((one, j) => {
      const value = one.values[i];
      if (value === null || value === undefined) return;
      drawing.append(svg("rect", { x: first + j * width, y: y(value), width: Math.max(1, width - 1), height: Math.max(0, y(0) - y(value)), fill: PALETTE[j % PALETTE.length] },
        tip(`${one.name}, ${category}: ${format(value)} (${value})`)));
    });
    if (categories.length <= 14 || i % Math.ceil(categories.length / 14) === 0) label(drawing, LEFT + slot * (i + 0.5), category, "middle", Math.max(3, Math.floor(slot / 6.4)));
  });
  return figure(title, drawing, series.length > 1 ? series.map((s, j) => [s.name, PALETTE[j % PALETTE.length]]) : null, note);
}

// rows: [{name, parts: [{name, value}]}], horizontal, each to its own sum or to 1.
function stacked(title, rows, note) {
  const names = [...new Set(rows.flatMap((row) => row.parts.map((part) => part.name)))];
  const height = 24 * rows.length + 24, left = 110;
  const drawing = svg("svg", { viewBox: `0 0 ${WIDTH} ${height}`, role: "img" });
  rows.forEach((row, i) => {
    const total = row.parts.reduce((sum, part) => sum + part.value, 0) || 1;
    let x = left;
    drawing.append(svg("text", { x: left - 6, y: 24 * i + 17, "text-anchor": "end" }, document.createTextNode(plain(row.name, 17))));
    row.parts.forEach((part) => {
      const width = (WIDTH - left - RIGHT) * part.value / total;
      const box = svg("rect", { x, y: 24 * i + 4, width: Math.max(0, width), height: 18, fill: PALETTE[names.indexOf(part.name) % PALETTE.length] },
        tip(`${row.name}, ${part.name}: ${percent(part.value / total)} (${part.value})`));
      drawing.append(box);
      if (width > 44) drawing.append(svg("text", { x: x + width / 2, y: 24 * i + 17, "text-anchor": "middle", class: "on" }, document.createTextNode(percent(part.value / total))));
      x += width;
    });
  });
  return figure(title, drawing, names.map((name, j) => [name, PALETTE[j % PALETTE.length]]), note);
}

// series: [{name, points: [[x, y], ..], dashed}]
function lines(title, series, format, options = {}) {
  const kept = series.map((one) => ({ ...one, points: one.points.filter(([, v]) => v !== null && v !== undefined) })).filter((one) => one.points.length);
  if (!kept.length) return null;
  const xs = kept.flatMap((one) => one.points.map(([x]) => x)), ys = kept.flatMap((one) => one.points.map(([, v]) => v));
  const low = options.low ?? Math.min(0, ...ys), high = Math.max(options.high ?? -Infinity, ...ys, low + 1e-9);
  const [drawing, y] = frame(low, high, format);
  const first = Math.min(...xs), last = Math.max(...xs);
  const x = (value) => last > first ? LEFT + 6 + (WIDTH - LEFT - RIGHT - 12) * (value - first) / (last - first) : (LEFT + WIDTH - RIGHT) / 2;
  kept.forEach((one, j) => {
    const colour = PALETTE[(one.colour ?? j) % PALETTE.length];
    if (one.points.length > 1) drawing.append(svg("polyline", { points: one.points.map(([a, b]) => `${x(a)},${y(b)}`).join(" "), fill: "none", stroke: colour, "stroke-width": 1.8, "stroke-dasharray": one.dashed ? "5 4" : "none" }));
    const every = Math.ceil(one.points.length / 120);
    one.points.forEach(([a, b], i) => {
      if (i % every && i !== one.points.length - 1) return;
      drawing.append(svg("circle", { cx: x(a), cy: y(b), r: one.points.length > 40 ? 1.8 : 3, fill: colour }, tip(`${one.name}, ${options.along || "iteration"} ${a}: ${format(b)} (${b})`)));
    });
  });
  label(drawing, x(first), first, last > first ? "start" : "middle");
  if (last > first) { label(drawing, x(last), last, "end"); label(drawing, (LEFT + WIDTH) / 2, options.along || "iteration"); }
  return figure(title, drawing, kept.map((one, j) => [one.name, PALETTE[(one.colour ?? j) % PALETTE.length]]), options.note);
}

function points(title, pair) {
  const { first, second } = pair.sample;
  const limit = Math.max(1e-9, ...first.map(Math.abs), ...second.map(Math.abs));
  const size = 260, drawing = svg("svg", { viewBox: `0 0 ${WIDTH} ${size + 30}`, role: "img" });
  const left = (WIDTH - size) / 2, scale = (v) => size * (v + limit) / (2 * limit);
  drawing.append(svg("rect", { x: left, y: 0, width: size / 2, height: size / 2, fill: "#c8641b", opacity: 0.12 }),
    svg("rect", { x: left + size / 2, y: size / 2, width: size / 2, height: size / 2, fill: "#c8641b", opacity: 0.12 }),
    svg("line", { class: "zero", x1: left, x2: left + size, y1: size / 2, y2: size / 2 }),
    svg("line", { class: "zero", x1: left + size / 2, x2: left + size / 2, y1: 0, y2: size }));
  first.forEach((a, i) => drawing.append(svg("circle", { cx: left + scale(a), cy: size - scale(second[i]), r: 1.7, fill: a * second[i] < 0 ? "#c8641b" : "#1f6fb2", opacity: 0.45 })));
  drawing.append(svg("text", { x: left + size / 2, y: size + 16, "text-anchor": "middle" }, document.createTextNode(`advantage by ${pair.first}, ±${limit.toPrecision(3)}`)),
    svg("text", { x: left - 8, y: size / 2, "text-anchor": "middle", transform: `rotate(-90 ${left - 8} ${size / 2})` }, document.createTextNode(`by ${pair.second}`)));
  return figure(title, drawing, null, `${percent(pair.sign_disagreement)} of the steps where both are not zero have opposite signs (shaded), by ${shown(pair.mean_opposite_difference, 3)} on average; correlation ${pair.correlation === null ? "undefined" : shown(pair.correlation, 3)}. ${first.length} of the steps are drawn.`);
}
