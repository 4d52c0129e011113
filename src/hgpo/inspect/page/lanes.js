// One lane per trajectory, one cell per step. Only what is in view is drawn, so any number of steps scrolls.
const CELL = 20, NAME = 120, HEAD = 18;

function shade(value, limit) {
  if (!value) return "#c9ced6";
  const strength = 0.18 + 0.82 * Math.min(1, Math.abs(value) / (limit || 1));
  return value > 0 ? `rgba(31,111,178,${strength})` : `rgba(200,100,27,${strength})`;
}

function drawLanes(place, view) {
  const chunk = view.chunk, rows = [];
  for (let row = view.start; row < view.stop; row = chunk.end(row)) rows.push(row);
  const longest = rows.reduce((most, row) => Math.max(most, chunk.end(row) - row), 0);
  const limit = largest(view);
  const canvas = element("canvas", { tabindex: "0", role: "img", "aria-label": "Lanes of steps; the list view has the same steps as text" });
  const space = element("div", { style: { width: NAME + longest * CELL + 30 + "px", height: HEAD + rows.length * CELL + 10 + "px" } });
  space.append(canvas);
  place.replaceChildren(space);
  const ink = getComputedStyle(document.body).color;

  function paint() {
    const width = place.clientWidth, height = place.clientHeight, ratio = window.devicePixelRatio || 1;
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    canvas.style.width = width + "px";
    canvas.style.height = height + "px";
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    pen.font = "11px system-ui, sans-serif";
    pen.fillStyle = ink;
    const top = place.scrollTop, left = place.scrollLeft;
    const firstLane = Math.max(0, Math.floor((top - HEAD) / CELL)), lastLane = Math.min(rows.length, Math.ceil((top + height) / CELL));
    const firstStep = Math.max(0, Math.floor((left - NAME) / CELL)), lastStep = Math.ceil((left + width - NAME) / CELL);
    const label = view.row === null ? -2 : chunk.label(view.level, view.row);
    for (let lane = firstLane; lane < lastLane; lane++) {
      const first = rows[lane], y = HEAD + lane * CELL - top, end = chunk.end(first);
      for (let row = first + firstStep; row < Math.min(end, first + lastStep); row++) {
        const x = NAME + (row - first) * CELL - left;
        pen.fillStyle = shade(chunk.advantage(view.colour, row), limit);
        pen.fillRect(x + 1, y + 1, CELL - 3, CELL - 3);
        if (label >= 0 && chunk.label(view.level, row) === label) {
          pen.strokeStyle = ink;
          pen.lineWidth = row === view.row ? 3 : 1.5;
          pen.strokeRect(x + 1, y + 1, CELL - 3, CELL - 3);
        } else if (row === view.row) {
          pen.strokeStyle = ink;
          pen.lineWidth = 3;
          pen.strokeRect(x + 1, y + 1, CELL - 3, CELL - 3);
        }
        if (chunk.has("valid") && !chunk.raw.valid[row]) {
          pen.strokeStyle = ink;
          pen.lineWidth = 1;
          pen.beginPath();
          pen.moveTo(x + 4, y + CELL - 6);
          pen.lineTo(x + CELL - 6, y + 4);
          pen.stroke();
        }
      }
      const x = NAME + (end - first) * CELL - left + 3;
      pen.fillStyle = ink;
      if (chunk.has("success")) pen.fillText(chunk.raw.success[end - 1] ? "✓" : "✗", x, y + 13);
    }
    pen.clearRect(0, 0, NAME - 4, height);
    pen.fillStyle = ink;
    for (let lane = firstLane; lane < lastLane; lane++) pen.fillText(plain(chunk.trajectoryName(rows[lane]), 18), 4, HEAD + lane * CELL - top + 13, NAME - 10);
    pen.clearRect(0, 0, width, HEAD);
    for (let step = firstStep; step < Math.min(longest, lastStep); step++) if (step % 5 === 0) pen.fillText(String(step), NAME + step * CELL - left + 3, 12);
  }

  function hit(event) {
    const box = canvas.getBoundingClientRect();
    const lane = Math.floor((event.clientY - box.top + place.scrollTop - HEAD) / CELL), step = Math.floor((event.clientX - box.left + place.scrollLeft - NAME) / CELL);
    if (lane < 0 || lane >= rows.length || step < 0 || event.clientX - box.left < NAME) return null;
    const row = rows[lane] + step;
    return row < chunk.end(rows[lane]) ? row : null;
  }
  canvas.addEventListener("click", (event) => { const row = hit(event); if (row !== null) select(row); });
  canvas.addEventListener("mousemove", (event) => hint(hit(event)));
  place.onscroll = paint;
  view.repaint = paint;
  if (view.row !== null) reveal(place, NAME + chunk.stepIndex(view.row) * CELL, HEAD + rows.indexOf(chunk.start(view.row)) * CELL, NAME);
  paint();
}

function reveal(place, x, y, margin) {
  if (x - place.scrollLeft < margin || x - place.scrollLeft > place.clientWidth - 40) place.scrollLeft = Math.max(0, x - place.clientWidth / 2);
  if (y - place.scrollTop < 20 || y - place.scrollTop > place.clientHeight - 40) place.scrollTop = Math.max(0, y - place.clientHeight / 2);
}

function largest(view) {
  let limit = 0;
  for (let row = view.start; row < view.stop; row++) limit = Math.max(limit, Math.abs(view.chunk.advantage(view.colour, row)));
  return limit;
}
