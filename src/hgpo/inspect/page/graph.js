// The rollouts of a task merged into one graph: a node per state, an edge per move between states.
const MOST_NODES = 160, COLUMN = 120, LINE = 46;

function mergedStates(view) {
  const chunk = view.chunk, states = new Map();
  for (let row = view.start; row < view.stop; row++) {
    const label = chunk.label(0, row);
    let state = states.get(label);
    if (!state) states.set(label, state = { label, rows: [], first: Infinity, sum: 0, contexts: new Set(), next: new Map() });
    state.rows.push(row);
    state.first = Math.min(state.first, chunk.stepIndex(row));
    state.sum += chunk.advantage(view.colour, row);
    state.contexts.add(chunk.raw.contexts[row]);
    const ends = row + 1 >= chunk.end(row);
    const to = ends ? (chunk.has("success") ? (chunk.raw.success[row] ? "won" : "lost") : "end") : chunk.label(0, row + 1);
    state.next.set(to, (state.next.get(to) || 0) + 1);
  }
  return states;
}

function drawGraph(place, view) {
  const states = mergedStates(view), all = [...states.values()];
  const marked = view.row === null ? null : view.chunk.label(0, view.row);
  const kept = all.sort((a, b) => (b.label === marked) - (a.label === marked) || b.rows.length - a.rows.length || a.first - b.first).slice(0, MOST_NODES);
  const nodes = new Map(kept.map((state) => [state.label, { ...state, column: state.first }]));
  let last = Math.max(...kept.map((state) => state.first)) + 1;
  for (const state of kept) for (const [to] of state.next) if (typeof to === "string" && !nodes.has(to)) nodes.set(to, { label: to, rows: [], column: last, end: true, next: new Map() });
  const used = [...new Set([...nodes.values()].map((node) => node.column))].sort((a, b) => a - b);
  const columns = used.map((column) => [...nodes.values()].filter((node) => node.column === column));
  order(columns, nodes);
  const tallest = Math.max(...columns.map((column) => column.length));
  columns.forEach((column, i) => column.forEach((node, j) => {
    node.x = 70 + i * COLUMN;
    node.y = 30 + (j + (tallest - column.length) / 2) * LINE;
  }));
  const width = 110 + columns.length * COLUMN, height = 60 + tallest * LINE;
  const drawing = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}` });
  const path = new Set();
  if (view.row !== null) for (let row = view.chunk.start(view.row); row < view.chunk.end(view.row) - 1; row++) path.add(view.chunk.label(0, row) + ">" + view.chunk.label(0, row + 1));
  for (const node of nodes.values()) for (const [to, times] of node.next) {
    const other = nodes.get(to);
    if (!other) continue;
    const bend = other.x < node.x ? 40 : 0, middle = (node.x + other.x) / 2 + (other.x === node.x ? 45 : 0);
    const d = node === other ? `M${node.x - 6},${node.y - 8} C${node.x - 30},${node.y - 40} ${node.x + 30},${node.y - 40} ${node.x + 6},${node.y - 8}`
      : `M${node.x},${node.y} C${middle},${node.y - bend} ${middle},${other.y - bend} ${other.x},${other.y}`;
    drawing.append(svg("path", { d, fill: "none", stroke: path.has(node.label + ">" + to) ? "#2457a6" : "#98a1ad", "stroke-opacity": 0.65, "stroke-width": Math.min(9, 1 + 1.6 * Math.log2(times + 0.5)) }, tip(`${times} times`)));
  }
  const limit = largest(view);
  for (const node of nodes.values()) drawing.append(node.end ? endNode(node) : stateNode(node, view, limit, node.label === marked));
  const note = all.length > kept.length ? `The ${kept.length} most visited of ${all.length} states are drawn. ` : "";
  place.replaceChildren(drawing);
  place.onscroll = null;
  view.repaint = null;
  const chosen = marked === null ? null : nodes.get(marked);
  if (chosen) reveal(place, chosen.x, chosen.y, 40);
  document.getElementById("hint").replaceChildren(element("span", {}, note + "Size: visits. Ring: the state was reached with different histories. Colour: mean advantage. Click a state to open a step in it."));
}

function order(columns, nodes) {
  columns.forEach((column) => column.sort((a, b) => b.rows.length - a.rows.length));
  for (let pass = 0; pass < 3; pass++) {
    columns.forEach((column) => column.forEach((node, j) => { node.place = j / Math.max(1, column.length - 1); }));
    const pull = new Map();
    for (const node of nodes.values()) for (const [to, times] of node.next) {
      if (!nodes.has(to)) continue;
      const sum = pull.get(to) || [0, 0];
      pull.set(to, [sum[0] + times * node.place, sum[1] + times]);
    }
    columns.forEach((column) => column.sort((a, b) => middle(a, pull) - middle(b, pull)));
  }
}

function middle(node, pull) { const sum = pull.get(node.label); return sum ? sum[0] / sum[1] : node.place; }

function endNode(node) {
  return svg("g", {}, svg("rect", { x: node.x - 16, y: node.y - 10, width: 36, height: 20, rx: 4, fill: node.label === "won" ? "#1d6b3a" : "#6b6f76" }),
    svg("text", { x: node.x + 2, y: node.y + 4, "text-anchor": "middle", fill: "#ffffff", class: "end" }, document.createTextNode(node.label)));
}

function stateNode(node, view, limit, marked) {
  const radius = Math.min(18, 4 + 2.2 * Math.sqrt(node.rows.length)), text = view.chunk.column("observation", node.rows[0]);
  const said = text ? text.head : "";
  return svg("g", { class: "node", tabindex: 0, role: "button", on: {
    click: () => select(closest(node, view)), keydown: (event) => { if (event.key === "Enter") select(closest(node, view)); }, mouseenter: () => hint(node.rows[0]) } },
    node.contexts.size > 1 ? svg("circle", { cx: node.x, cy: node.y, r: radius + 3, fill: "none", stroke: "#a33a00", "stroke-dasharray": "3 2" }) : null,
    svg("circle", { cx: node.x, cy: node.y, r: radius, fill: shade(node.sum / node.rows.length, limit), stroke: marked ? "currentColor" : "#5b6470", "stroke-width": marked ? 3 : 1 }),
    svg("text", { x: node.x, y: node.y + radius + 11, "text-anchor": "middle" }, document.createTextNode(plain(said, 17))),
    tip(`${node.rows.length} visits, ${node.contexts.size} histories, mean advantage ${shown(node.sum / node.rows.length)}\n${said.slice(0, 200)}`));
}

// The next visit of the state after the selected step, so that clicking again walks through them.
function closest(node, view) {
  const after = node.rows.find((row) => view.row !== null && row > view.row);
  return after ?? node.rows[0];
}
