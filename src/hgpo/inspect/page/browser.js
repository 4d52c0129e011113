// Picking a task, drawing it, and finding steps.
const ROW = 40;
const view = { iteration: 0, task: null, chunk: null, start: 0, stop: 0, row: null, drawing: "lanes", colour: estimatorNames[0], level: 0, repaint: null };

// A list of any length of which only the lines in view exist.
function longList(place, length, make, rowHeight = ROW) {
  const space = element("div", { style: { height: length * rowHeight + "px", position: "relative" } });
  place.replaceChildren(space);
  let drawn = "";
  function paint(force) {
    const first = Math.max(0, Math.floor(place.scrollTop / rowHeight) - 4), last = Math.min(length, Math.ceil((place.scrollTop + (place.clientHeight || 600)) / rowHeight) + 4);
    if (!force && drawn === first + ":" + last) return;
    drawn = first + ":" + last;
    const rows = [];
    for (let i = first; i < last; i++) { const row = make(i); row.style.top = i * rowHeight + "px"; row.style.height = rowHeight + "px"; rows.push(row); }
    space.replaceChildren(...rows);
  }
  place.onscroll = () => paint(false);
  paint(true);
  return { paint: () => paint(true), show: (i) => { if (i * rowHeight < place.scrollTop || (i + 1) * rowHeight > place.scrollTop + place.clientHeight) place.scrollTop = Math.max(0, i * rowHeight - place.clientHeight / 2); paint(true); } };
}

let taskList = null;

function drawTasks() {
  const tasks = shownTasks[view.iteration];
  taskList = longList(document.getElementById("tasks"), tasks.length, (i) => {
    const task = tasks[i];
    return element("button", { type: "button", class: "row", "data-task": i, "aria-selected": String(view.task === task), on: { click: () => openTask(view.iteration, i, null) } },
      element("span", { class: "text" }, task.task.length > 200 ? task.task.slice(0, 200) + "…" : task.task || "(no name)"),
      element("small", {}, `${task.trajectories} rollouts, ${task.steps} steps` + (task.success === undefined ? `, return ${shown(task.return, 2)}` : `, success ${percent(task.success)}`) + (task.flat ? ", no difference" : "")));
  });
}

async function openTask(iteration, number, row) {
  const task = shownTasks[iteration][number];
  if (!task) return;
  let chunk;
  try { chunk = await unpack(task.chunk); } catch (problem) { fail(problem); return; }
  document.getElementById("iteration").value = String(iteration);
  if (view.iteration !== iteration || taskList === null) {
    view.iteration = iteration;
    drawTasks();
  }
  Object.assign(view, { task, chunk, start: task.start, stop: task.stop, row: null });
  taskList.show(number);
  document.getElementById("task-head").replaceChildren(element("b", { class: "text" }, task.task), ` · ${task.trajectories} rollouts, ${task.steps} steps, return ${shown(task.lowest, 3)} to ${shown(task.highest, 3)}`);
  if (row === null) { draw(); drawStep(view); location.replace("#" + address()); } else select(task.start + row);
}

async function openNamed(iteration, number, trajectory, step) {
  showView("browse");
  await openTask(iteration, number, null);
  for (let row = view.start; row < view.stop; row = view.chunk.end(row)) {
    if (view.chunk.trajectoryName(row) === trajectory) { select(row + step); return; }
  }
}

function address() {
  return `task=${view.iteration}/${view.task.number}` + (view.row === null ? "" : `/${view.row - view.start}`);
}

function select(row) {
  view.row = row;
  location.replace("#" + address());
  draw();
  drawStep(view);
}

function move(by) {
  const next = view.row + by;
  if (view.row !== null && next >= view.chunk.start(view.row) && next < view.chunk.end(view.row)) select(next);
}

function setLevel(level) {
  view.level = level;
  document.getElementById("level").value = String(level);
  draw();
  if (view.row !== null) drawStep(view);
}

function draw() {
  if (!view.chunk) return;
  const place = document.getElementById("drawing");
  for (const button of document.querySelectorAll("#views button")) button.setAttribute("aria-pressed", String(button.dataset.view === view.drawing));
  const kept = place.dataset.drawn === drawnKey() ? [place.scrollLeft, place.scrollTop] : [0, 0];
  place.dataset.drawn = drawnKey();
  document.getElementById("hint").replaceChildren();
  if (view.drawing === "graph") drawGraph(place, view);
  else if (view.drawing === "list") drawList(place);
  else drawLanes(place, view);
  if (view.drawing !== "list") { if (!view.row || kept[0] || kept[1]) { place.scrollLeft = kept[0] || place.scrollLeft; place.scrollTop = kept[1] || place.scrollTop; } if (view.repaint) view.repaint(); }
}

function drawnKey() { return `${view.drawing}/${view.iteration}/${view.task ? view.task.number : ""}`; }

function drawList(place) {
  const chunk = view.chunk;
  const list = longList(place, view.stop - view.start, (i) => {
    const row = view.start + i;
    return element("button", { type: "button", class: "row", "data-row": i, "aria-selected": String(row === view.row), on: { click: () => select(row) } },
      element("span", {}, element("span", { class: "text" }, plain(chunk.trajectoryName(row), 40)), ` · ${chunk.stepIndex(row)} · A ${shown(chunk.advantage(view.colour, row))} · R ${shown(chunk.value("return", row))} · `, element("span", { class: "text" }, plain(short(chunk.column("action", row), 80), 80))),
      element("small", { class: "text" }, plain(short(chunk.column("observation", row), 160), 160)));
  });
  view.repaint = null;
  if (view.row !== null) list.show(view.row - view.start);
}

function hint(row) {
  const place = document.getElementById("hint");
  if (row === null) { place.replaceChildren(); return; }
  const chunk = view.chunk;
  place.replaceChildren(element("span", { class: "text" }, plain(`${chunk.trajectoryName(row)} · step ${chunk.stepIndex(row)} · A ${shown(chunk.advantage(view.colour, row))} · ${short(chunk.column("action", row), 80)} · ${short(chunk.column("observation", row), 200)}`, 330)));
}

// Finding: task and trajectory names and recorded text, one piece after the other so that the page stays responsive.
let searching = 0;

async function find(query) {
  const run = ++searching, wanted = query.trim().toLowerCase(), status = document.getElementById("found-status"), box = document.getElementById("found");
  box.hidden = !wanted;
  status.textContent = "";
  if (!wanted) return;
  const results = [];
  const list = () => longList(box, results.length, (i) => element("button", { type: "button", class: "row", "data-found": i, on: { click: () => openTask(results[i].iteration, results[i].task, results[i].row) } }, element("span", { class: "text" }, results[i].title), element("small", { class: "text" }, results[i].text)));
  let last = performance.now(), seen = 0;
  const total = shownTasks.reduce((sum, tasks) => sum + tasks.length, 0);
  for (let iteration = 0; iteration < shownTasks.length && results.length < 500; iteration++) {
    for (const task of shownTasks[iteration]) {
      if (results.length >= 500) break;
      seen++;
      const chunk = await unpack(task.chunk);
      if (run !== searching) return;
      search(chunk, task, iteration, wanted, results);
      if (performance.now() - last > 60) {
        status.textContent = `${results.length} found, looked at ${seen} of ${total} tasks`;
        list();
        await new Promise((resolve) => setTimeout(resolve, 0));
        if (run !== searching) return;
        last = performance.now();
      }
    }
  }
  status.textContent = `${results.length}${results.length >= 500 ? " or more" : ""} steps found`;
  list();
}

const matches = new WeakMap();

function search(chunk, task, iteration, wanted, results) {
  let hits = matches.get(chunk);
  if (!hits || hits.wanted !== wanted) {
    const line = chunk.raw.lines.map((text) => text.toLowerCase().includes(wanted));
    hits = { wanted, texts: chunk.raw.texts.map((stored) => (Array.isArray(stored) ? stored : [...stored.head, ...stored.tail]).some((code) => line[code])) };
    matches.set(chunk, hits);
  }
  const named = task.task.toLowerCase().includes(wanted);
  for (let row = task.start; row < task.stop && results.length < 500; row++) {
    const column = named || hits.texts[chunk.raw.names[chunk.trajectory[row]]] ? "name" : ["observation", "action", "response", "prompt"].find((name) => chunk.has(name) && chunk.raw[name][row] >= 0 && hits.texts[chunk.raw[name][row]]);
    if (!column) continue;
    if (named && row > task.start && column === "name") continue;
    results.push({ iteration, task: task.number, row: row - task.start, title: plain(`${task.task} · ${chunk.trajectoryName(row)} · step ${chunk.stepIndex(row)}`, 120), text: plain(short(chunk.column(column === "name" ? "observation" : column, row), 160), 160) });
  }
}
