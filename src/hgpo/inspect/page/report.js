// The report view: cards, findings, charts, tables.
function drawReport() {
  document.getElementById("title").replaceChildren(element("span", { class: "text" }, report.source.name), " · HGPO rollout report");
  document.title = plain(report.source.name, 60) + " · HGPO rollout report";
  drawCards();
  drawFindings();
  drawCompare();
  const charts = document.getElementById("charts");
  charts.append(...[...groupCharts(), ...iterationCharts(), ...estimatorCharts(), ...tables()].filter(Boolean));
}

function drawCards() {
  const s = report.summary;
  const cards = [
    [count(s.steps), "steps"], [count(s.trajectories), "trajectories"], [count(s.tasks), "task groups"], [count(s.iterations), "iterations"],
    ...(s.success === undefined ? [] : [[percent(s.success), "of the rollouts succeed"]]),
    [shown(s.return, 3), "mean return of a rollout"],
    [percent(s.peers_share), "of the steps have a peer in the same state"],
    [percent(s.inconsistency), `of same-state pairs differ in their last ${report.depth} steps`],
    [percent(s.history_effect), "of same-state variance is explained by history"],
    [percent(s.flat_task_share), "of task groups have no difference in reward"],
  ];
  document.getElementById("cards").append(...cards.map(([value, name]) => element("div", { class: "card" }, element("b", {}, value), element("span", {}, name))));
  const notes = [...report.source.notes];
  if (report.shown_iterations.length < report.iterations.length) notes.push(`Single steps are kept for ${report.shown_iterations.length} of ${report.iterations.length} iterations; all numbers of this view count all of them.`);
  if (browser.text_limit < 20000) notes.push(`To keep this page small, recorded texts are cut in the middle to ${count(browser.text_limit)} characters.`);
  const left = browser.iterations.reduce((sum, iteration) => sum + iteration.left_out, 0);
  if (left) notes.push(`Single steps of ${count(left)} task groups are left out to keep this page small; all numbers of this view count them.`);
  if (notes.length) document.getElementById("cards").after(element("div", {}, notes.map((note) => element("p", { class: "note" }, note))));
}

function drawFindings() {
  document.getElementById("findings").append(...report.findings.map((finding) => element("li", { class: finding.status, "data-name": finding.name },
    element("span", { class: "name" }, finding.name.replaceAll("_", " ")), " ", element("span", {}, finding.sentence), " ",
    element("span", { class: "todo" }, finding.suggestion))));
}

function drawCompare() {
  if (!report.compare) return;
  const compare = report.compare, place = document.getElementById("compare");
  place.hidden = false;
  place.append(element("h2", {}, "Compared: ", element("span", { class: "text" }, compare.first), " and ", element("span", { class: "text" }, compare.second)));
  place.append(...compare.sentences.map((sentence) => element("p", {}, sentence)));
  if (compare.settings) place.append(compare.settings.length ? table(["setting that differs", compare.first, compare.second], compare.settings.map((row) => [row.name, row.first ?? "–", row.second ?? "–"].map((word) => element("span", { class: "text" }, word))), [1, 2]) : element("p", { class: "note" }, "Both runs have the same settings."));
  if (compare.kind === "runs") {
    const of = (entries, key) => entries.map((entry) => [entry.iteration, entry.summary[key]]);
    const charts = [["success", "Success"], ["inconsistency", "Same-state pairs with different histories"], ["peers_share", "Steps with a peer in the same state"], ["flat_task_share", "Task groups without a difference in reward"]]
      .map(([key, title]) => lines(title, [{ name: compare.first, points: of(report.iterations, key) }, { name: compare.second, points: of(compare.iterations, key), dashed: true }], percent));
    place.append(element("div", { class: "pair" }, charts.filter(Boolean)));
  }
  place.append(element("details", { open: compare.kind === "estimators" ? "" : null }, element("summary", {}, "All numbers side by side"),
    table(["", compare.first, compare.second, "difference"], compare.numbers.map((row) => [row.name, number(row.first), number(row.second), number(row.difference)]))));
}

function table(heads, rows, words = []) {
  const kind = (i) => words.includes(i) ? { class: "words" } : {};
  return labelled(heads, element("table", { class: "stacks" }, element("thead", {}, element("tr", {}, heads.map((head, i) => element("th", kind(i), head)))),
    element("tbody", {}, rows.map((row) => element("tr", {}, row.map((cell, i) => element("td", kind(i), cell)))))));
}

function groupCharts() {
  const levels = report.levels, sizes = Object.keys(levels[0].groups_by_size);
  const name = (level) => `level ${level.level}`;
  const share = (level, key) => { const counts = Object.values(level[key]), total = counts.reduce((a, b) => a + b, 0) || 1; return counts.map((v) => v / total); };
  return [
    element("h2", { class: "wide" }, "Groups of compared steps"),
    bars("Steps by size of their group", sizes, levels.map((level) => ({ name: name(level), values: share(level, "steps_by_size") })), percent, "Level k shares the state and k steps of history. Size 1 has nobody to be compared with."),
    bars("Groups by size", sizes, levels.map((level) => ({ name: name(level), values: share(level, "groups_by_size") })), percent),
    stacked("Variance of returns within tasks", levels.map((level) => ({ name: name(level), parts: [{ name: "between groups", value: level.variance_between }, { name: "within groups", value: level.variance_within }] })), "Between: what the groups tell apart. Within: what is left to compare the actions of a group by."),
    element("div", { class: "wide" }, table(
      ["level", "groups", "mean size", "with peers", "peer in another trajectory", "alone", "constant", "signal", "tiny spread", "mean |A|", "mean weight", "share of |A|", "sign agrees with the level above", "variance explained"],
      levels.map((l) => [l.level, count(l.groups), shown(l.mean_size, 2), percent(l.peers_share), percent(l.other_trajectory_share), percent(l.singleton_share), percent(l.constant_share), percent(l.signal_share), percent(l.tiny_share), number(l.abs_advantage), number(l.mean_weight), percent(l.advantage_share), percent(l.sign_agreement), percent(l.explained)]))),
  ];
}

function iterationCharts() {
  const all = report.iterations, over = (pick) => all.map((entry) => [entry.iteration, pick(entry)]);
  const perLevel = (key) => report.levels.map((level, i) => ({ name: `level ${level.level}`, points: over((entry) => entry.levels[i] ? entry.levels[i][key] : null) }));
  const types = report.task_types.map((kind) => kind.type);
  const evaluated = [...new Set(report.logged.flatMap((row) => Object.keys(row).filter((key) => /^eval\/.*\/success$/.test(key))))];
  return [
    element("h2", { class: "wide" }, "Over training iterations"),
    lines("Success", [
      { name: "rollouts", points: over((entry) => entry.summary.success) },
      ...evaluated.map((key) => ({ name: key, dashed: true, points: report.logged.filter((row) => key in row).map((row) => [row.iteration, row[key]]) }))], percent, { low: 0 }),
    lines("Mean return", [{ name: "rollouts", points: over((entry) => entry.summary.return) }], (v) => shown(v, 2)),
    lines("Steps without a peer (singletons)", perLevel("singleton_share"), percent, { low: 0 }),
    lines("Constant groups among those with peers", perLevel("constant_share"), percent, { low: 0 }),
    lines("Context inconsistency", [{ name: "same-state pairs with different histories", points: over((entry) => entry.summary.inconsistency) }, { name: "variance explained by history", points: over((entry) => entry.summary.history_effect) }], percent, { low: 0 }),
    lines("Share of |A| by level", perLevel("advantage_share"), percent, { low: 0 }),
    lines("Steps with an advantage of zero", estimatorNames.map((name) => ({ name, points: over((entry) => entry.estimators[name].zero_share) })), percent, { low: 0 }),
    lines("Sign disagreement", report.pairs.map((pair, i) => ({ name: `${pair.first} / ${pair.second}`, points: over((entry) => entry.pairs[i].sign_disagreement) })), percent, { low: 0 }),
    report.task_types.some((kind) => kind.success !== undefined) ? bars("Success by task type", types, [{ name: "success", values: report.task_types.map((kind) => kind.success ?? null) }], percent) : null,
    types.length > 1 && types.length <= 8 && all.length > 1 ? lines("Success by task type over iterations", types.map((type) => ({ name: type, points: over((entry) => { const kind = entry.task_types.find((k) => k.type === type); return kind ? kind.success : null; }) })), percent, { low: 0 }) : null,
  ];
}

function estimatorCharts() {
  const entries = Object.entries(report.estimators), edges = entries[0][1].histogram.edges;
  const middles = edges.slice(1).map((edge, i) => (edge + edges[i]) / 2);
  return [
    element("h2", { class: "wide" }, "Estimators on the same rollouts"),
    lines("Distribution of advantages", entries.map(([name, entry]) => ({ name, points: entry.histogram.steps.map((steps, i) => [Number(middles[i].toPrecision(3)), steps / report.summary.steps]) })), percent, { low: 0, along: "advantage", note: "Values beyond the ends are counted in the outermost bins." }),
    stacked("Where the advantage comes from (share of |A|)", entries.map(([name, entry]) => ({ name, parts: Object.entries(entry.terms).map(([term, values]) => ({ name: term, value: values.advantage_share })) }))),
    ...report.pairs.map((pair) => points(`${pair.first} against ${pair.second}`, pair)),
    element("div", { class: "wide" }, table(["estimator", "mean A", "deviation", "mean |A|", "zero", "positive", "silent tasks", "settings"],
      entries.map(([name, e]) => [name, number(e.mean), number(e.std), number(e.abs_mean), percent(e.zero_share), percent(e.positive_share), percent(e.silent_task_share), Object.entries(e.settings).map(([k, v]) => `${k}=${v}`).join(", ") || "defaults"]), [7])),
  ];
}

function tables() {
  const made = [];
  if (report.disagreements.length) made.push(element("div", { class: "wide" }, element("h2", {}, "Where estimators disagree most"),
    table(["step", "first", "A", "second", "A"], report.disagreements.map((entry) => [opener(entry), entry.first, number(entry.first_advantage), entry.second, number(entry.second_advantage)]))));
  if (report.aliases.length) made.push(element("div", { class: "wide" }, element("h2", {}, "Observations that stand for several states"),
    table(["observation", "steps", "task groups", "states in one task", "ways to reach it", "evidence"], report.aliases.map((alias) => [element("span", { class: "text", dir: "auto" }, alias.text.length > 300 ? alias.text.slice(0, 300) + "…" : alias.text), count(alias.steps), count(alias.tasks), count(alias.states), count(alias.arrivals), alias.evidence]), [0, 5])));
  if (report.task_types.length) made.push(element("div", { class: "wide" }, element("h2", {}, "Task types"),
    table(["type", "trajectories", "mean return", "success"], report.task_types.map((kind) => [element("span", { class: "text" }, kind.type), count(kind.trajectories), number(kind.return), percent(kind.success)]))));
  return made;
}

function opener(entry) {
  const name = `iteration ${entry.iteration} · ${entry.task} · ${entry.trajectory} · step ${entry.step}`;
  const place = browser.iterations.findIndex((iteration) => iteration.number === entry.iteration);
  const task = place < 0 ? -1 : shownTasks[place].findIndex((one) => one.task === entry.task);
  if (task < 0) return element("span", { class: "text" }, name);
  return element("button", { type: "button", class: "text opener", on: { click: () => openNamed(place, task, entry.trajectory, entry.step) } }, name);
}
