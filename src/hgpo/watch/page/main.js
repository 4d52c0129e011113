// Asking for news, again and again, and drawing what is new.
const SOON = 3000, LATE = 6000, HIDDEN_PAGE = 15000;
let board = "", waiting = 0, silent = 0;

async function ask(address) {
  const reply = await fetch(address, { cache: "no-store" });
  if (!reply.ok) throw new Error(`the server answered ${reply.status}`);
  return reply.json();
}

function fail(problem) {
  const place = document.getElementById("failure");
  place.hidden = false;
  place.textContent = "Something went wrong: " + problem.message;
}

async function drawAll() {
  drawRuns();
  drawKept();
  await drawCharts();
  document.body.dataset.drawn = String(Number(document.body.dataset.drawn || 0) + 1);
}

let beat = false;

// The dot changes with each answer; an endless animation would keep the processor busy beside the run.
function live(text, kind) {
  beat = !beat;
  document.getElementById("live").replaceChildren(element("span", { class: `live ${kind}${beat ? " beat" : ""}` }), text);
}

async function poll() {
  clearTimeout(waiting);
  let news = null;
  try {
    news = await ask("/news?have=" + have());
    silent = 0;
  } catch (problem) {
    silent++;
    live(silent < 2 ? "no answer, trying again" : "hgpo watch does not answer any more; this is what it said last", "lost");
  }
  try {
    if (news && news.problem) throw new Error(news.problem);
    if (news) {
      if (board !== news.board) {
        // Another server has taken this address: its runs have other numbers.
        const first = board === "";
        board = news.board;
        if (!first) { runs.clear(); choice.hidden.clear(); view.drawn = ""; news = await ask("/news"); }
      }
      if (take(news)) await drawAll();
      const busy = [...runs.values()].some((run) => run.about && ["training", "starting", "waiting"].includes(run.about.state));
      live(busy ? "live" : "no run is under way", busy ? "on" : "");
      document.body.dataset.ready = "true";
      waiting = setTimeout(poll, document.hidden ? HIDDEN_PAGE : busy ? SOON : LATE);
      return;
    }
  } catch (problem) { fail(problem); }
  waiting = setTimeout(poll, LATE);
}

function wire() {
  makeCharts();
  document.getElementById("smooth").addEventListener("change", (event) => { choice.smooth = Number(event.target.value); drawCharts().catch(fail); });
  document.getElementById("along").addEventListener("change", (event) => { choice.along = event.target.value; pointer.x = null; drawCharts().catch(fail); });
  document.getElementById("kept-run").addEventListener("change", (event) => { view.run = Number(event.target.value); view.latest = true; drawKept(); });
  document.getElementById("kept-iteration").addEventListener("change", (event) => { view.latest = event.target.value === ""; view.key = event.target.value; drawKept(); });
  document.addEventListener("visibilitychange", () => { if (!document.hidden) poll(); });
  const dialog = document.getElementById("episode");
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  dialog.addEventListener("keydown", (event) => {
    if (event.key === "ArrowLeft") document.getElementById("episode-previous").click();
    if (event.key === "ArrowRight") document.getElementById("episode-next").click();
  });
}

window.addEventListener("error", (event) => fail(event.error || new Error(event.message)));
window.addEventListener("unhandledrejection", (event) => fail(event.reason));
wire();
poll();
