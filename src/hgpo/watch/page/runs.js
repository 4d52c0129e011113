// What the page knows of the runs, and everything drawn from their metrics.
const runs = new Map();
const choice = { hidden: new Set(), smooth: 1, along: "iteration", metric: "", columns: new Map() };
const STATES = { training: "training", starting: "starting", ended: "ended", stopped: "stopped", gone: "deleted", waiting: "waiting", broken: "unreadable" };

function empty(id, colour) { return { id, colour, generation: -1, version: -1, iterations: [], columns: {}, about: null }; }

// Takes the news of one poll; true when something is to be drawn.
function take(news) {
  let changed = false;
  const there = new Set(news.runs.map((one) => one.id));
  for (const id of runs.keys()) if (!there.has(id)) { runs.delete(id); changed = true; }
  for (const one of news.runs) {
    if (!runs.has(one.id)) { runs.set(one.id, empty(one.id, runs.size)); changed = true; }
    const run = runs.get(one.id);
    // Of two answers to the same question the second is old news.
    if (one.rows && one.from !== 0 && one.from !== run.iterations.length) continue;
    if (one.rows) {
      if (one.from === 0) { run.iterations = []; run.columns = {}; }
      const before = run.iterations.length, size = one.rows.iterations.length;
      run.iterations = run.iterations.concat(one.rows.iterations);
      for (const [name, values] of Object.entries(one.rows.columns)) run.columns[name] = (run.columns[name] || new Array(before).fill(null)).concat(values);
      for (const [name, values] of Object.entries(run.columns)) if (values.length < before + size) run.columns[name] = values.concat(new Array(before + size - values.length).fill(null));
      run.minutes = null;
      changed = true;
    }
    run.generation = one.generation;
    if (one.about) { run.about = one.about; changed = true; }
    run.version = one.version;
  }
  return changed;
}

function have() { return [...runs.values()].map((run) => `${run.id}.${run.generation}.${run.iterations.length}.${run.version}`).join(","); }

function seen() { return [...runs.values()].filter((run) => !choice.hidden.has(run.id)); }

function along(run) {
  if (choice.along === "iteration") return run.iterations;
  if (!run.minutes) {
    let sum = 0;
    const seconds = run.columns.seconds || [];
    run.minutes = run.iterations.map((_, i) => { sum += seconds[i] || 0; return sum / 60; });
  }
  return run.minutes;
}

function last(run, name) {
  const values = run.columns[name] || [];
  for (let i = values.length - 1; i >= 0; i--) if (values[i] !== null) return values[i];
  return null;
}

function firstOf(run, name) { return (run.columns[name] || []).find((value) => value !== null) ?? null; }

function evaluations(run) { return Object.keys(run.columns).filter((name) => /^eval\/.*\/success$/.test(name)).sort(); }

function pace(run) {
  const recent = (run.columns.seconds || []).slice(-10).filter((value) => value !== null);
  return recent.length ? recent.reduce((a, b) => a + b, 0) / recent.length : null;
}

function duration(seconds) {
  if (seconds === null || !Number.isFinite(seconds)) return "–";
  if (seconds < 90) return `${Math.round(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  return `${(seconds / 3600).toFixed(1)} h`;
}

// Success may be a share of nothing that a run measures; then the return is what there is.
function headline(run) {
  const split = evaluations(run)[0];
  const now = run.iterations.length ? run.iterations[run.iterations.length - 1] : null;
  const goal = run.about ? run.about.iterations : null, second = pace(run);
  const left = run.about && run.about.state === "training" && goal !== null && now !== null && second !== null ? (goal - now) * second : null;
  return { split, now, goal, second, left, success: last(run, "success"), held: split ? last(run, split) : null, start: split ? firstOf(run, split) : null, entropy: last(run, "entropy"), kl: last(run, "kl_old"), reward: last(run, "return") };
}

function pill(run) { return element("span", { class: `pill ${run.about.state}` }, STATES[run.about.state] || run.about.state); }

function progress(head) {
  if (head.now === null || !head.goal) return null;
  const made = element("div", { class: "progress", role: "progressbar", "aria-valuenow": head.now, "aria-valuemin": 0, "aria-valuemax": head.goal, "aria-label": "iterations" }, element("div", {}));
  made.firstChild.style.width = `${Math.min(100, 100 * head.now / head.goal)}%`;
  return made;
}

function drawRuns() {
  const all = [...runs.values()].filter((run) => run.about), place = document.getElementById("runs");
  const title = all.length === 1 ? all[0].about.title : `${all.length} runs`;
  document.getElementById("title").replaceChildren(element("span", { class: "text" }, title));
  const busy = all.find((run) => run.about.state === "training");
  document.title = plain(`${busy && all.length === 1 && headline(busy).now !== null ? `${headline(busy).now}/${headline(busy).goal ?? "?"} · ` : ""}${title} · hgpo watch`, 100);
  if (all.length === 1) place.replaceChildren(...single(all[0]));
  else place.replaceChildren(beside(all));
  document.getElementById("curves").hidden = !all.some((run) => run.iterations.length);
  drawAlarms(all);
  drawEvents(all);
  drawSettings(all);
}

function single(run) {
  const head = headline(run), about = run.about;
  const card = (value, name, more, id) => value === null ? null : element("div", { class: "card", id }, element("span", {}, name), element("b", {}, value), more ? element("small", {}, more) : null);
  const held = head.held === null ? null : card(percent(head.held), `success on held-out tasks`, head.start !== null && head.start !== head.held ? `${percent(head.start)} at the start` : plain(head.split.split("/")[1], 40), "card-held");
  return [
    element("div", { class: "where-at" }, pill(run), element("span", { class: "text path" }, about.place), element("span", { class: "text note", id: "sentence" }, about.sentence)),
    element("div", { class: "cards" },
      head.now === null ? null : element("div", { class: "card", id: "card-iteration" }, element("span", {}, "iteration"), element("b", {}, `${head.now}`, head.goal === null ? null : element("i", {}, ` / ${head.goal}`)), progress(head), element("small", {}, head.left === null ? (head.second === null ? "" : `${duration(head.second)} each`) : `about ${duration(head.left)} left`)),
      held, card(head.success === null ? null : percent(head.success), "success of the rollouts", null, "card-success"), card(head.reward === null ? null : shown(head.reward, 2), "mean return"), card(head.entropy === null ? null : shown(head.entropy, 3), "entropy"), card(head.kl === null ? null : shown(head.kl, 4), "KL to the policy that played")),
  ];
}

function beside(all) {
  const rows = all.map((run) => {
    const head = headline(run), off = choice.hidden.has(run.id);
    const box = element("input", { type: "checkbox", id: `show-${run.id}`, checked: off ? null : "", on: { change: (event) => { if (event.target.checked) choice.hidden.delete(run.id); else choice.hidden.add(run.id); drawAll().catch(fail); } } });
    const alarms = run.about.alarms.length;
    return element("tr", { "data-run": run.id, class: off ? "off" : "" },
      element("th", { scope: "row" }, element("label", { for: `show-${run.id}` }, box, element("span", { class: `swatch b${run.colour % COLOURS}` }), element("span", { class: "text" }, run.about.title)), element("small", { class: "text path" }, run.about.place)),
      element("td", { "data-name": "state", title: plain(run.about.sentence, 300) }, pill(run), alarms ? element("span", { class: "pill alarm" }, `${alarms} alarm${alarms > 1 ? "s" : ""}`) : null),
      element("td", { "data-name": "iteration" }, head.now === null ? "–" : `${head.now}${head.goal === null ? "" : ` / ${head.goal}`}`, progress(head)),
      element("td", { "data-name": "held out" }, head.held === null ? "–" : element("b", {}, percent(head.held)), head.start !== null && head.start !== head.held ? element("small", {}, `from ${percent(head.start)}`) : null),
      element("td", { "data-name": "rollouts" }, percent(head.success)),
      element("td", { "data-name": "return" }, head.reward === null ? "–" : shown(head.reward, 2)),
      element("td", { "data-name": "an iteration" }, duration(head.second)),
      element("td", { "data-name": "left" }, head.left === null ? "–" : duration(head.left)));
  });
  const heads = ["run", "state", "iteration", "held out", "rollouts", "return", "an iteration", "left"];
  return element("table", { class: "side", id: "side" }, element("thead", {}, element("tr", {}, heads.map((head) => element("th", { scope: "col" }, head)))), element("tbody", {}, rows));
}

function drawAlarms(all) {
  const found = all.flatMap((run) => run.about.alarms.map((alarm) => ({ run, alarm }))), place = document.getElementById("alarms");
  place.hidden = !found.length;
  place.replaceChildren(element("h2", {}, found.length === 1 ? "One alarm" : `${found.length} alarms`), element("ul", {}, found.map(({ run, alarm }) => element("li", { "data-metric": alarm.metric },
    all.length > 1 ? element("span", { class: "text" }, element("span", { class: `swatch b${run.colour % COLOURS}` }), run.about.title, ": ") : null,
    element("b", {}, `iteration ${alarm.iteration}`), " ", alarm.sentence))));
}

function drawEvents(all) {
  const found = all.flatMap((run) => run.about.events.map((event) => ({ run, event }))).sort((a, b) => b.event.time - a.event.time), place = document.getElementById("events");
  place.hidden = !found.length;
  place.replaceChildren(element("h2", {}, "What happened"), element("ul", {}, found.slice(0, 40).map(({ run, event }) => element("li", {},
    element("time", {}, new Date(event.time * 1000).toLocaleTimeString()), " ", all.length > 1 ? element("span", { class: "text" }, run.about.title, ": ") : null, element("span", { class: "text" }, event.text)))));
}

function drawSettings(all) {
  const place = document.getElementById("settings"), known = all.filter((run) => Object.keys(run.about.settings).length), open = place.querySelector("details");
  place.hidden = !known.length;
  if (!known.length) return;
  const names = [...new Set(known.flatMap((run) => Object.keys(run.about.settings)))];
  const differs = (name) => new Set(known.map((run) => run.about.settings[name])).size > 1;
  const line = (name) => element("tr", { class: known.length > 1 && differs(name) ? "differs" : "" }, element("th", { scope: "row" }, element("span", { class: "text" }, name)), known.map((run) => element("td", {}, element("span", { class: "text" }, run.about.settings[name] ?? "–"))));
  const table = (rows) => element("div", { class: "scroll" }, element("table", { class: "settings" }, known.length > 1 ? element("thead", {}, element("tr", {}, element("th", {}, "setting"), known.map((run) => element("th", { scope: "col" }, element("span", { class: `swatch b${run.colour % COLOURS}` }), element("span", { class: "text" }, run.about.title))))) : null, element("tbody", {}, rows)));
  const apart = known.length > 1 ? names.filter(differs) : [];
  place.replaceChildren(element("h2", {}, apart.length ? "Settings that differ" : "Settings"), ...(apart.length ? [table(apart.map(line))] : []),
    element("details", { open: open && open.open ? "" : null }, element("summary", {}, `all ${names.length} settings`), table(names.map(line))));
}

// Charts

const share = (value, exact) => exact ? percent(value) : `${Number((100 * value).toPrecision(4))}%`;
const plainNumber = (value, exact) => exact && Math.abs(value) >= 0.001 ? count4(value) : short(value);
const count4 = (value) => Math.abs(value) >= 1000 ? count(value) : String(Number(value.toPrecision(4)));

function lineOf(run, name, series, many, more = {}) {
  const values = run.columns[name];
  if (!values) return [];
  const colour = many ? run.colour : more.colour ?? 0, xs = along(run), called = many ? (series ? `${run.about.title}, ${series}` : run.about.title) : series || run.about.title;
  const line = { name: called, colour, dash: many ? more.dash ?? 0 : 0, dots: more.dots, xs, values };
  if (choice.smooth <= 1 || more.dots) return [line];
  return [{ ...line, faint: true }, { ...line, values: smoothed(values, choice.smooth) }];
}

// Metrics of one chart: each with a name, told apart by dashes where several runs are shown and by colours where one is.
// Beside each other runs show the first `most` alone.
function metricsOf(all, most = all.length) {
  return () => {
    const shownRuns = seen().filter((run) => run.about), many = runs.size > 1;
    const entries = (many ? all.slice(0, most) : all).filter(([name]) => shownRuns.some((run) => run.columns[name]));
    return shownRuns.flatMap((run) => entries.flatMap(([name, series], i) => lineOf(run, name, entries.length > 1 || !many ? series : "", many, { colour: i, dash: i })));
  };
}

function successLines() {
  const many = runs.size > 1;
  return seen().filter((run) => run.about).flatMap((run) => [
    ...lineOf(run, "success", many ? "rollouts" : "training rollouts", many, { colour: 0, dash: 2 }),
    ...evaluations(run).flatMap((name, i) => lineOf(run, name, many && evaluations(run).length === 1 ? "held out" : name.split("/").slice(1, -1).join("/") + (many ? "" : " (held out)"), many, { colour: 1 + i, dash: i ? 1 : 0, dots: true })),
  ]);
}

function marksOf(metrics) {
  return () => seen().filter((run) => run.about).flatMap((run) => run.about.alarms.filter((alarm) => metrics.includes(alarm.metric)).map((alarm) => ({
    x: along(run)[run.iterations.indexOf(alarm.iteration)] ?? null, title: runs.size > 1 ? `${plain(run.about.title, 60)}, iteration ${alarm.iteration}:` : `Iteration ${alarm.iteration}:`, text: alarm.sentence })));
}

const whole = () => choice.along === "iteration";
const where = (x) => choice.along === "iteration" ? `iteration ${x}` : `${x.toFixed(1)} minutes`;

const SPECS = [
  { key: "success", title: "Success", wide: true, format: share, low: 0, high: 1, lines: successLines },
  { key: "return", title: "Return", format: plainNumber, lines: metricsOf([["return", "mean return of the rollouts"]]) },
  { key: "entropy", title: "Entropy", format: plainNumber, low: 0, lines: metricsOf([["entropy", "entropy of the policy"]]), marks: marksOf(["entropy"]), note: "How open the policy still is. Near zero its rollouts are all alike." },
  { key: "kl", title: "KL", format: plainNumber, low: 0, lines: metricsOf([["kl_old", "to the policy that played"], ["loss/kl", "to the starting policy"]]), marks: marksOf(["kl_old"]), note: "How far an iteration's updates move the policy. Healthy runs stay under 0.03." },
  { key: "disagreement", title: "Different actions where the same is seen", format: share, low: 0, lines: metricsOf([["action_disagreement", "pairs of steps that act differently"]]), marks: marksOf(["action_disagreement"]) },
  { key: "signal", title: "Advantages", format: share, low: 0, lines: metricsOf([["estimator/advantage/zero_share", "steps with none"], ["estimator/advantage/penalty_share", "made by the penalty"]]), marks: marksOf(["estimator/advantage/penalty_share"]) },
  { key: "replies", title: "Replies", format: share, low: 0, lines: metricsOf([["inadmissible_share", "actions that do nothing"], ["malformed_share", "not in the asked form"], ["shortened_share", "prompt too long"]], 1) },
  { key: "length", title: "Steps of an episode", format: plainNumber, low: 0, lines: metricsOf([["episode_length", "mean length"]]) },
  { key: "clip", title: "Clipped tokens", format: share, low: 0, lines: metricsOf([["clip_share", "share of the tokens"]]) },
  { key: "gradient", title: "Gradient norm", format: plainNumber, low: 0, lines: metricsOf([["grad_norm", "before clipping"]]) },
  { key: "seconds", title: "Seconds an iteration", format: plainNumber, low: 0, lines: metricsOf([["seconds", "all phases"], ["seconds/rollout", "rollout"], ["seconds/update", "update"], ["seconds/eval", "evaluation"]], 1) },
  { key: "speed", title: "Tokens a second", format: plainNumber, low: 0, lines: metricsOf([["tokens_per_second", "sampled and trained"]]) },
];

const charts = [];
let phases = null, own = null;

function makeCharts() {
  const place = document.getElementById("charts");
  for (const spec of SPECS) charts.push(new Chart({ ...spec, where, whole }));
  phases = element("figure", { class: "chart", "data-chart": "phases" });
  const pick = element("select", { id: "metric", "aria-label": "metric", on: { change: (event) => { choice.metric = event.target.value; drawOwn().catch(fail); } } });
  own = new Chart({ key: "own", title: "Any metric", format: plainNumber, where, whole, zero: false, lines: ownLines });
  own.root.querySelector("figcaption").replaceChildren("Any metric ", pick);
  own.root.append(element("p", { class: "note meaning" }));
  place.append(...charts.map((chart) => chart.root));
  place.insertBefore(phases, charts.find((chart) => chart.spec.key === "speed").root);
  place.append(own.root);
}

async function drawCharts() {
  for (const chart of charts) chart.draw();
  drawPhases();
  await drawOwn();
}

function drawPhases() {
  const rows = seen().filter((run) => run.about && run.columns.seconds).map((run) => {
    const names = Object.keys(run.columns).filter((name) => name.startsWith("seconds/") && name !== "seconds/generate").sort();
    const mean = (name) => { const part = (run.columns[name] || []).slice(-50).filter((value) => value !== null); return part.length ? part.reduce((a, b) => a + b, 0) / part.length : 0; };
    const parts = names.map((name) => ({ name: name.slice(8), value: mean(name) })), total = mean("seconds"), rest = total - parts.reduce((sum, part) => sum + part.value, 0);
    if (rest > 0.02 * total) parts.push({ name: "rest", value: rest });
    return { run, total, parts };
  });
  phases.hidden = !rows.length;
  const names = [...new Set(rows.flatMap((row) => row.parts.map((part) => part.name)))];
  rows.forEach((row) => row.parts.forEach((part) => { part.colour = names.indexOf(part.name); }));
  const format = (value) => `${short(Number(value.toPrecision(3)))} s`;
  phases.replaceChildren(element("figcaption", {}, "Where the time goes"), element("div", { class: "legend" }, names.map((name, i) => element("span", {}, element("span", { class: `swatch b${i % COLOURS}` }), element("span", { class: "text" }, name), rows.length === 1 ? element("b", {}, " " + format(rows[0].parts.find((part) => part.name === name).value)) : null))),
    ...rows.map((row) => element("div", { class: "phase" }, runs.size > 1 ? element("small", { class: "text" }, row.run.about.title) : null, strip(row.parts, format), element("small", {}, `${format(row.total)} an iteration`))), element("p", { class: "note" }, "Mean of the last 50 iterations."));
}

// The chart of any metric: its values are fetched when it is asked for.
async function fetchColumns() {
  choice.columns = new Map();
  if (!choice.metric) return;
  for (const run of seen()) {
    const found = await ask(`/column?run=${run.id}&name=${encodeURIComponent(choice.metric)}`);
    if (!found.problem) choice.columns.set(run.id, found);
  }
}

function ownLines() {
  return seen().filter((run) => run.about && choice.columns.has(run.id)).flatMap((run) => {
    const found = choice.columns.get(run.id), place = new Map(run.iterations.map((iteration, i) => [iteration, i]));
    return found.values.length ? [{ name: runs.size > 1 ? run.about.title : choice.metric, colour: run.colour, xs: found.iterations.map((iteration) => along(run)[place.get(iteration)] ?? null), values: smoothed(found.values, choice.smooth), dots: found.values.filter((value) => value !== null).length < 40 }] : [];
  });
}

async function drawOwn() {
  const names = [...new Set(seen().flatMap((run) => run.about ? run.about.metrics : []))].sort(), pick = document.getElementById("metric");
  if (!pick) return;
  if (pick.dataset.names !== names.join("\n")) {
    pick.dataset.names = names.join("\n");
    pick.replaceChildren(element("option", { value: "" }, "choose one"), ...names.map((name) => element("option", { value: name, selected: name === choice.metric ? "" : null }, plain(name, 80))));
  }
  if (!choice.metric && !pick.dataset.chosen && names.length) {
    // Something to see before somebody chooses.
    choice.metric = pick.value = ["estimator/context/inconsistency", "loss/policy"].find((name) => names.includes(name)) || names[0];
    pick.dataset.chosen = "true";
  }
  if (choice.metric) await fetchColumns();
  own.draw();
  const said = [...choice.columns.values()].map((found) => found.meaning).find(Boolean);
  own.root.querySelector(".meaning").replaceChildren(said ? `What it is: ${said}.` : "");
  own.root.hidden = !names.length;
  own.box.hidden = !choice.metric;
}
