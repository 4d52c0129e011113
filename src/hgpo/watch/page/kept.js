// Groups, advantages and episodes of the rollouts that a run keeps. All text goes through text.js.
const view = { run: null, key: "", latest: true, drawn: "", content: null, tasks: 8, episode: null };
const MORE = 16;

function keptRuns() { return [...runs.values()].filter((run) => run.about && run.about.kept.length); }

function drawKept() {
  const some = keptRuns(), place = document.getElementById("kept");
  place.hidden = !some.length;
  if (!some.length) return;
  if (!some.some((run) => run.id === view.run)) { view.run = some[0].id; view.latest = true; }
  const run = runs.get(view.run), pick = document.getElementById("kept-run"), iterations = document.getElementById("kept-iteration"), kept = run.about.kept;
  document.getElementById("kept-run-label").hidden = some.length < 2;
  pick.replaceChildren(...some.map((one) => element("option", { value: one.id, selected: one.id === view.run ? "" : null }, plain(one.about.title, 80))));
  if (view.latest || !kept.includes(view.key)) { view.key = kept[kept.length - 1]; view.latest = true; }
  iterations.replaceChildren(element("option", { value: "", selected: view.latest ? "" : null }, `the latest kept (${Number.parseInt(kept[kept.length - 1], 10)})`), ...[...kept].reverse().map((key) => element("option", { value: key, selected: !view.latest && key === view.key ? "" : null }, plain(key.replace(/^0+(?=\d)/, ""), 20))));
  document.getElementById("inspector").setAttribute("href", `/inspect?run=${run.id}&key=${encodeURIComponent(view.key)}`);
  const wanted = `${run.id}/${run.generation}/${view.key}`;
  if (view.drawn !== wanted) { view.drawn = wanted; fetchKept(run.id, view.key).catch(fail); }
}

async function fetchKept(id, key) {
  const note = document.getElementById("kept-note"), place = document.getElementById("kept-content");
  const content = await ask(`/groups?run=${id}&key=${encodeURIComponent(key)}`);
  if (view.run !== id || view.key !== key) return;
  if (content.problem) { note.replaceChildren(element("span", { class: "text" }, content.problem)); place.replaceChildren(); return; }
  view.content = content;
  view.tasks = 8;
  note.replaceChildren(element("span", {}, `Iteration ${content.iteration}: ${count(content.steps)} steps, ${percent(content.zero_share)} of them with an advantage of zero; advantages by `, element("b", { class: "text" }, content.estimator), "."));
  place.replaceChildren(element("div", { class: "groups" }, levels(content), content.histogram.steps.length ? histogram("Advantages of the steps", content.histogram) : null), tasks(content));
  document.body.dataset.kept = `${id}/${key}`;
}

function levels(content) {
  const sizes = content.levels.length ? Object.keys(content.levels[0].steps_by_size) : [];
  const line = (level) => element("tr", {}, element("th", { scope: "row" }, level.level === 0 ? "the same state" : `and ${level.level} step${level.level > 1 ? "s" : ""} before`), element("td", {}, count(level.groups)), element("td", {}, shown(level.mean_size, 1)), element("td", {}, percent(level.singleton_share)), element("td", {}, percent(level.constant_share)),
    element("td", { class: "sizes" }, strip(sizes.map((size, i) => ({ name: size, value: level.steps_by_size[size], colour: i })), (value) => `${count(value)} steps`)));
  return element("figure", { class: "chart plain", id: "levels" }, element("figcaption", {}, "Groups of compared steps"), element("div", { class: "scroll" }, element("table", { class: "levels" }, element("thead", {}, element("tr", {}, ["steps that share", "groups", "mean size", "alone", "equal returns", "steps by size of their group"].map((head) => element("th", { scope: "col" }, head)))), element("tbody", {}, content.levels.map(line)))),
    element("div", { class: "legend" }, sizes.map((size, i) => element("span", {}, element("span", { class: `swatch b${i % COLOURS}` }), size))));
}

function tasks(content) {
  const box = element("div", { id: "tasks" }), limit = Math.max(1e-9, ...content.tasks.flatMap((task) => (task.episodes || []).flatMap((episode) => episode.advantages.map(Math.abs))));
  const shownTasks = content.tasks.filter((task) => task.episodes);
  box.append(element("div", { class: "legend" }, element("span", {}, element("i", { class: "cell a3" }), " better than the group"), element("span", {}, element("i", { class: "cell d3" }), " worse"), element("span", {}, element("i", { class: "cell" }), " no advantage"), element("span", {}, "✓ succeeded. Pick an episode to read it.")));
  const grid = element("div", { class: "tasks" });
  const more = element("button", { type: "button", on: { click: () => { view.tasks += MORE; grow(); } } });
  function grow() {
    grid.replaceChildren(...shownTasks.slice(0, view.tasks).map((task) => taskCard(task, limit)));
    const left = shownTasks.length - view.tasks;
    more.hidden = left <= 0;
    more.textContent = `show more tasks (${left} left)`;
  }
  grow();
  box.append(grid, more);
  if (content.left_out) box.append(element("p", { class: "note" }, `${count(content.left_out)} further tasks are left out here; hgpo inspect shows all.`));
  return box;
}

function taskCard(task, limit) {
  const name = task.task.length > 140 ? task.task.slice(0, 140) + "…" : task.task || "(no name)";
  return element("div", { class: "task" }, element("h3", { class: "text", dir: "auto" }, name), element("small", {}, (task.success === undefined ? `return ${shown(task.lowest, 2)} to ${shown(task.highest, 2)}` : `${percent(task.success)} of ${task.trajectories} succeed`) + (task.flat ? ", all with the same return" : "")),
    task.episodes.map((episode, i) => element("button", { type: "button", class: "lane", "data-episode": episode.number, "aria-label": `episode ${i + 1} of ${task.episodes.length}, ${episode.advantages.length} steps${episode.success === undefined ? "" : episode.success ? ", succeeded" : ", failed"}`, on: { click: () => openEpisode(episode.number).catch(fail) } },
      element("span", { class: "mark-end" }, episode.success === undefined ? shown(episode.return, 1) : episode.success ? "✓" : "·"), element("span", { class: "cells" }, episode.advantages.map((value) => element("i", { class: `cell ${tone(value, limit)}` }))))));
}

// Three strengths of better and worse; small differences stay visible.
function tone(value, limit) {
  if (!value) return "";
  const strength = Math.min(3, Math.max(1, Math.ceil(3 * Math.sqrt(Math.abs(value) / limit))));
  return (value > 0 ? "a" : "d") + strength;
}

async function openEpisode(number) {
  const run = view.run, key = view.key, content = await ask(`/episode?run=${run}&key=${encodeURIComponent(key)}&number=${number}`), place = document.getElementById("episode");
  if (content.problem) { fail(new Error(content.problem)); return; }
  view.episode = number;
  const all = view.content.tasks.flatMap((task) => (task.episodes || []).map((episode) => episode.number)), at = all.indexOf(number);
  const go = (to, text, id) => element("button", { type: "button", id, disabled: to === undefined ? "" : null, on: { click: () => openEpisode(to).catch(fail) } }, text);
  place.replaceChildren(
    element("div", { class: "dialog-head" }, element("h2", { id: "episode-title" }, recorded(content.task, "inline")), element("button", { type: "button", id: "close", "aria-label": "close", on: { click: () => place.close() } }, "✕")),
    element("div", { class: "bar" }, go(all[at - 1], "← previous episode", "episode-previous"), go(all[at + 1], "next episode →", "episode-next"),
      element("span", { class: "note" }, recorded(content.name, "inline"), ` · ${content.steps.length} steps`, content.success === null ? null : content.success ? " · succeeded" : " · failed")),
    element("ol", { class: "steps" }, content.steps.map((step, i) => stepOf(step, i))));
  if (!place.open) place.showModal();
  place.scrollTop = 0;
}

function stepOf(step, i) {
  const kind = step.advantage > 0 ? "up" : step.advantage < 0 ? "down" : "none";
  const sizes = step.groups.map((size, level) => size ? `${size} in the same state${level ? ` after the same ${level === 1 ? "step" : `${level} steps`}` : ""}` : null).filter(Boolean);
  return element("li", { class: kind },
    step.observation ? recorded(step.observation, "block", { class: "block observation" }) : null,
    element("p", { class: "act" }, element("span", { class: "number-of" }, `${i}`), step.action ? recorded(step.action, "inline", { class: "text action" }) : null, step.valid === false ? element("span", { class: "pill stopped" }, "not valid") : null),
    element("p", { class: "note" }, element("b", { class: `advantage ${kind}`, title: String(step.advantage) }, `A ${step.advantage > 0 ? "+" : ""}${shown(step.advantage, 3)}`), step.reward ? ` · reward ${shown(step.reward, 2)}` : "", ` · return ${shown(step.return, 3)}`, sizes.length ? ` · group of ${sizes.join(", of ")}` : ""),
    step.response || step.prompt ? element("details", {}, element("summary", {}, "prompt and reply"), step.prompt ? recorded(step.prompt, "block") : null, step.response ? recorded(step.response, "block", { class: "block reply" }) : null) : null);
}
