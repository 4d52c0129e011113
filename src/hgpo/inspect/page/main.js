// Start: draw the report, wire the controls, follow the address.
function fail(problem) {
  const place = document.getElementById("failure");
  place.hidden = false;
  place.textContent = "Something went wrong: " + problem.message;
}

function showView(name) {
  for (const one of ["report", "browse"]) {
    document.getElementById("view-" + one).hidden = one !== name;
    document.getElementById("tab-" + one).setAttribute("aria-selected", String(one === name));
  }
  if (name === "browse") {
    if (!view.task && shownTasks.some((tasks) => tasks.length)) openTask(view.iteration, 0, null);
    else { drawTasks(); draw(); }
  }
}

function wire() {
  document.getElementById("tab-report").addEventListener("click", () => showView("report"));
  document.getElementById("tab-browse").addEventListener("click", () => showView("browse"));
  const iterations = document.getElementById("iteration"), colour = document.getElementById("colour"), level = document.getElementById("level");
  browser.iterations.forEach((iteration, i) => {
    const left = iteration.left_out ? ` (${iteration.left_out} tasks left out)` : "";
    iterations.append(element("option", { value: i }, `${iteration.number}${left}`));
  });
  iterations.addEventListener("change", () => { view.iteration = Number(iterations.value); drawTasks(); openTask(view.iteration, 0, null); });
  estimatorNames.forEach((name) => colour.append(element("option", { value: name }, `advantage by ${name}`)));
  colour.addEventListener("change", () => { view.colour = colour.value; draw(); if (view.row !== null) drawStep(view); });
  report.levels.forEach((entry) => level.append(element("option", { value: entry.level }, `level ${entry.level}`)));
  level.addEventListener("change", () => setLevel(Number(level.value)));
  for (const button of document.querySelectorAll("#views button")) button.addEventListener("click", () => { view.drawing = button.dataset.view; draw(); });
  let waiting = 0;
  document.getElementById("find").addEventListener("input", (event) => { clearTimeout(waiting); waiting = setTimeout(() => find(event.target.value).catch(fail), 250); });
  document.addEventListener("keydown", (event) => {
    if (document.getElementById("view-browse").hidden || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
    if (event.key === "ArrowLeft") move(-1);
    if (event.key === "ArrowRight") move(1);
  });
  window.addEventListener("resize", () => { if (view.repaint) view.repaint(); });
}

function follow() {
  const place = /^#task=(\d+)\/(\d+)(?:\/(\d+))?$/.exec(location.hash);
  if (!place || !shownTasks[Number(place[1])]) return false;
  view.task = shownTasks[Number(place[1])][Number(place[2])] || null;
  view.iteration = Number(place[1]);
  showView("browse");
  openTask(Number(place[1]), Number(place[2]), place[3] === undefined ? null : Number(place[3]));
  return true;
}

window.addEventListener("error", (event) => fail(event.error || new Error(event.message)));
window.addEventListener("unhandledrejection", (event) => fail(event.reason));
drawReport();
wire();
if (!follow()) showView("report");
document.body.dataset.ready = "true";
