// One step: what was seen, done and earned, whom it was compared with, and the arithmetic.
const MEMBERS = 60;

function drawStep(view) {
  const place = document.getElementById("step"), chunk = view.chunk, row = view.row;
  if (row === null) {
    place.replaceChildren(element("p", { class: "note" }, "Pick a step: click a cell, a state or a line."));
    return;
  }
  const task = view.task;
  place.replaceChildren(
    element("h2", { id: "step-title" }, element("span", { class: "text" }, task.task), " · ", element("span", { class: "text" }, chunk.trajectoryName(row)), ` · step ${chunk.stepIndex(row)}`),
    element("div", { class: "bar" },
      element("button", { type: "button", id: "previous", disabled: chunk.stepIndex(row) === 0 ? "" : null, on: { click: () => move(-1) } }, "← previous step"),
      element("button", { type: "button", id: "next", disabled: row + 1 >= chunk.end(row) ? "" : null, on: { click: () => move(1) } }, "next step →")),
    facts(chunk, row),
    element("h3", {}, "Observation"), recorded(chunk.column("observation", row), "block", { id: "observation" }),
    element("h3", {}, "Action"), recorded(chunk.column("action", row), "block", { id: "action" }),
    ...arithmetic(chunk, row), ...groupsOf(view), ...promptOf(chunk, row), ...extrasOf(chunk, row));
  place.scrollTop = 0;
}

function facts(chunk, row) {
  const yes = (name) => chunk.has(name) ? (chunk.raw[name][row] ? "yes" : "no") : "–";
  return element("table", { id: "facts" }, element("tbody", {},
    element("tr", {}, element("th", {}, "reward"), element("td", { id: "reward" }, number(chunk.value("reward", row))),
      element("th", {}, "return"), element("td", { id: "return" }, number(chunk.value("return", row)))),
    element("tr", {}, element("th", {}, "valid"), element("td", {}, yes("valid")), element("th", {}, "episode succeeded"), element("td", {}, yes("success"))),
    ...estimatorNames.map((name) => element("tr", {}, element("th", {}, "advantage"), element("td", { class: "words" }, name), element("td", { colspan: "2", "data-estimator": name, class: "advantage" }, number(chunk.advantage(name, row)))))));
}

function arithmetic(chunk, row) {
  const made = [element("h3", {}, "Arithmetic")];
  for (const name of estimatorNames) {
    const sums = chunk.sums(name, row), score = chunk.score(name, row);
    if (score) made.push(scoreTable(name, score));
    for (const sum of sums) made.push(sum.kind === "means" ? meansTable(name, sum) : comparisonsTable(name, sum, score));
  }
  return made;
}

function sumTable(name, sum, heads, lines) {
  return labelled(heads, element("table", { class: "arithmetic stacks", "data-estimator": name, "data-sum": sum.name }, element("caption", {}, `${name}: ${sum.name} = ${sum.formula}`),
    element("thead", {}, element("tr", {}, heads.map((head) => element("th", {}, head)))),
    element("tbody", {}, lines),
    element("tfoot", {}, element("tr", {}, element("td", { colspan: heads.length - 1 }, `sum = ${sum.name}`), element("td", { class: "sum" }, number(sum.total))))));
}

// Comparisons with groups; where nested means are shrunk also w, the part of the group's own mean, and the value as far as each level.
function comparisonsTable(name, sum, score) {
  const nested = sum.terms.some((term) => term.soFar !== null && term.soFar !== undefined);
  const divided = !nested || sum.terms.some((term) => term.divisor !== 1);
  const heads = ["term", "compared with", score ? score.name : "score", nested ? "level mean" : "baseline", ...(nested ? ["w", "V so far"] : []), "difference", ...(divided ? ["÷", "value"] : []), nested ? "share" : "weight", "adds"];
  const lines = sum.terms.map((term) => {
    if (term.absent) return element("tr", { class: "unused" }, element("td", {}, term.name), element("td", { colspan: heads.length - 1, class: "words" }, "too early in the trajectory for this level"));
    return element("tr", { class: term.weight === 0 ? "unused" : "", "data-term": term.name }, element("td", {}, term.name), element("td", {}, term.size === 1 ? "itself only" : `${term.size} ${term.members}`),
      element("td", {}, number(term.score)), element("td", {}, number(term.baseline)), ...(nested ? [element("td", {}, number(term.own)), element("td", {}, number(term.soFar))] : []),
      element("td", {}, number(term.deviation)), ...(divided ? [element("td", {}, number(term.divisor)), element("td", {}, number(term.value))] : []),
      element("td", {}, term.weight === 0 && !nested ? reason(term) : number(term.weight)), element("td", {}, number(term.weight * term.value)));
  });
  return sumTable(name, sum, heads, lines);
}

// Means over nested groups, each with its share.
function meansTable(name, sum) {
  const lines = sum.terms.map((term) => element("tr", { class: term.weight === 0 ? "unused" : "", "data-term": term.name }, element("td", {}, term.name), element("td", {}, term.size === 1 ? "itself only" : `${term.size} ${term.members}`),
    element("td", {}, number(term.score)), element("td", {}, number(term.own)), element("td", {}, number(term.soFar)), element("td", {}, number(term.divisor)), element("td", {}, number(term.value)), element("td", {}, number(term.weight)), element("td", {}, number(term.weight * term.value))));
  return sumTable(name, sum, ["term", "averaged over", "mean", "w", "mean so far", "÷", "value", "share", "adds"], lines);
}

const FOLLOWING = 12;

// Where a score comes from: summands of the step itself, then those of the steps that follow, discounted.
function scoreTable(name, score) {
  const following = score.following, between = following ? following.names : [];
  const heads = ["summand", ...between, following ? following.name : "number", "factor", "adds"];
  const lines = score.parts.map((part) => element("tr", {}, element("td", {}, part.name), ...between.map(() => element("td", {})), element("td", {}, number(part.value)), element("td", {}, number(part.weight)), element("td", {}, number(part.weight * part.value))));
  if (following) {
    for (const later of following.steps.slice(0, FOLLOWING)) lines.push(element("tr", {}, element("td", {}, `step ${later.step}`), ...later.columns.map((value) => element("td", {}, number(value))), element("td", {}, number(later.value)), element("td", {}, number(later.factor)), element("td", {}, number(later.factor * later.value))));
    const rest = following.steps.slice(FOLLOWING);
    if (rest.length) lines.push(element("tr", {}, element("td", { colspan: heads.length - 1, class: "words" }, `${rest.length} later step${rest.length > 1 ? "s" : ""}, together`), element("td", {}, number(rest.reduce((sum, later) => sum + later.factor * later.value, 0)))));
  }
  return labelled(heads, element("table", { class: "arithmetic stacks", "data-estimator": name, "data-score": score.name }, element("caption", {}, `${name}: ${score.name} = ${score.formula}`),
    element("thead", {}, element("tr", {}, heads.map((head) => element("th", {}, head)))), element("tbody", {}, lines),
    element("tfoot", {}, element("tr", {}, element("td", { colspan: heads.length - 1 }, `sum = ${score.name}`), element("td", { class: "sum" }, number(score.total))))));
}

function reason(term) {
  if (term.size === 1) return "left out: alone";
  return term.value === 0 ? "left out: zero" : "left out";
}

function membersAt(view, level) {
  const chunk = view.chunk, label = chunk.label(level, view.row), found = [];
  if (label < 0) return found;
  for (let row = view.start; row < view.stop; row++) if (chunk.label(level, row) === label) found.push(row);
  return found;
}

function groupsOf(view) {
  const chunk = view.chunk, levels = chunk.raw.levels.map((_, level) => level);
  const bar = element("div", { class: "bar", id: "level-buttons" }, levels.map((level) => {
    const size = membersAt(view, level).length;
    return element("button", { type: "button", "data-level": level, disabled: size ? null : "", "aria-pressed": String(level === view.level), on: { click: () => setLevel(level) } }, size ? `level ${level}: ${size} step${size > 1 ? "s" : ""}` : `level ${level}: too early`);
  }));
  const members = membersAt(view, view.level), list = element("div", { id: "members" });
  let drawn = 0;
  const more = element("button", { type: "button", on: { click: grow } });
  function grow() {
    for (const row of members.slice(drawn, drawn + MEMBERS)) list.append(member(view, row));
    drawn = Math.min(members.length, drawn + MEMBERS);
    more.hidden = drawn >= members.length;
    more.textContent = `show more (${members.length - drawn} left)`;
  }
  grow();
  return [element("h3", {}, "Groups it is compared in"), bar,
    element("p", { class: "note" }, members.length ? `Members share the state${view.level ? ` and ${view.level} step${view.level > 1 ? "s" : ""} of history` : ""}. Their last ${report.depth} steps are listed; what differs from this step's history is highlighted.` : "This step is too early for that level."), list, more];
}

function member(view, row) {
  const chunk = view.chunk, own = row === view.row;
  const head = element("div", {}, own ? element("b", {}, "this step") : element("button", { type: "button", class: "who", "data-row": row, on: { click: () => select(row) } }, element("span", { class: "text" }, chunk.trajectoryName(row)), ` · step ${chunk.stepIndex(row)}`),
    " · return ", number(chunk.value("return", row)), ` · A `, number(chunk.advantage(view.colour, row)), " · ", element("span", { class: "text" }, short(chunk.column("action", row), 80)));
  const box = element("div", { class: "member" }, head), list = element("div", { class: "history" });
  for (let lag = report.depth; lag >= 1; lag--) {
    const mine = view.row - lag >= chunk.start(view.row) ? view.row - lag : null, theirs = row - lag >= chunk.start(row) ? row - lag : null;
    if (mine === null && theirs === null) continue;
    list.append(historyLine(chunk, lag, mine, theirs, own));
  }
  if (list.childNodes.length) box.append(list);
  return box;
}

function historyLine(chunk, lag, mine, theirs, own) {
  if (theirs === null) return element("div", { class: "differs" }, `−${lag}: no such step (the trajectory starts later)`);
  const observation = chunk.column("observation", theirs), action = chunk.column("action", theirs);
  const before = mine === null ? null : chunk.column("observation", mine), did = mine === null ? null : chunk.column("action", mine);
  const sameSeen = own || (mine !== null && same(chunk, "observation", mine, theirs)), sameDone = own || (mine !== null && same(chunk, "action", mine, theirs));
  return element("div", { class: sameSeen && sameDone ? "same" : "" }, `−${lag}: `,
    sameSeen ? element("span", { class: "text", dir: "auto" }, short(observation, 160)) : difference(before, observation), " → ",
    sameDone ? element("span", { class: "text", dir: "auto" }, short(action, 100)) : difference(did, action));
}

function same(chunk, column, a, b) { return !chunk.has(column) || chunk.raw[column][a] === chunk.raw[column][b]; }

function short(text, limit) {
  if (text === null) return "–";
  const whole = text.cut ? text.head + " … " + text.tail : text.head;
  return whole.length > limit ? whole.slice(0, limit) + "…" : whole;
}

// Words of `after` that are not in the longest common subsequence with `before`, highlighted.
function difference(before, after) {
  const made = element("span", { class: "text", dir: "auto" });
  const words = (text) => short(text, 1200).split(/(\s+)/).slice(0, 300);
  const b = words(after);
  if (before === null) { made.append(element("span", { class: "differs" }, b.join(""))); return made; }
  const a = words(before), table = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i--) for (let j = b.length - 1; j >= 0; j--) table[i][j] = a[i] === b[j] ? table[i + 1][j + 1] + 1 : Math.max(table[i + 1][j], table[i][j + 1]);
  let i = 0, j = 0;
  while (j < b.length) {
    if (i < a.length && a[i] === b[j]) { made.append(visible(b[j])); i++; j++; }
    else if (i < a.length && table[i + 1][j] >= table[i][j + 1]) i++;
    else { made.append(element("span", { class: "differs" }, b[j])); j++; }
  }
  if (!made.querySelector(".differs")) made.append(element("span", { class: "differs" }, " (differs beyond what is shown)"));
  return made;
}

function promptOf(chunk, row) {
  const made = [element("h3", {}, "Prompt and response")], prompt = chunk.column("prompt", row), response = chunk.column("response", row);
  if (prompt === null && response === null) return [...made, element("p", { class: "note" }, "Not recorded.")];
  const block = element("div", { class: "block", id: "prompt", style: { maxHeight: "26rem" } });
  if (prompt !== null) block.append(recorded(prompt, "inline", { class: "text untrained" }), document.createTextNode("\n"));
  const tokens = tokensOf(chunk, row);
  if (tokens) tokens.forEach(([text, trained]) => block.append(element("span", { class: trained ? "text trained" : "text" }, text)));
  else if (response !== null) block.append(recorded(response, "inline", { class: "text trained", id: "response" }));
  const ids = chunk.raw.extras.response_ids ? chunk.text(chunk.raw.extras.response_ids[row]) : null, counted = ids ? listLength(ids.head) : null;
  made.push(element("p", { class: "note" }, element("span", { class: "trained" }, " marked "), ` = trained on, with this step's advantage on every token${counted === null ? "" : ` (${counted} tokens)`}; the rest is only read.`), block);
  return made;
}

function listLength(text) {
  const all = /(\d+) in all\]$/.exec(text);
  return all ? Number(all[1]) : text === "[]" ? 0 : text.split(",").length;
}

// Token texts with their mask, where the rollouts have them.
function tokensOf(chunk, row) {
  const read = (name) => { const column = chunk.raw.extras[name]; const text = column ? chunk.text(column[row]) : null; try { return text && !text.cut ? JSON.parse(text.head) : null; } catch { return null; } };
  const texts = read("response_tokens"), mask = read("response_mask");
  if (!Array.isArray(texts)) return null;
  return texts.map((text, i) => [String(text), Array.isArray(mask) && mask.length === texts.length ? Boolean(mask[i]) : true]);
}

function extrasOf(chunk, row) {
  const rows = Object.entries(chunk.raw.extras).map(([name, column]) => [name, chunk.text(column[row])]).filter(([, text]) => text !== null);
  if (!rows.length) return [];
  return [element("h3", {}, "Other columns"), element("table", { id: "extras" }, element("tbody", {}, rows.map(([name, text]) => element("tr", {}, element("th", {}, element("span", { class: "text" }, name)), element("td", { class: "words" }, recorded(text, "inline"))))))];
}
