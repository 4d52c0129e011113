// The report's numbers, and the packed steps, unpacked when a task is opened.
const report = JSON.parse(document.getElementById("report").textContent);
const browser = report.browser;
const estimatorNames = Object.keys(report.estimators);
const KEPT = 6;
const unpacked = new Map();

// Entries of report.tasks that can be opened, by shown iteration.
const taskOffsets = [0];
report.iterations.forEach((entry, i) => taskOffsets.push(taskOffsets[i] + entry.summary.tasks));
const shownTasks = browser.iterations.map((iteration) => {
  const table = iteration.tasks, first = taskOffsets[iteration.position];
  return table.chunk.map((chunk, i) => ({ ...report.tasks[first + i], chunk, start: table.start[i], stop: table.stop[i], number: i }));
});

async function unpack(number) {
  if (unpacked.has(number)) {
    const known = unpacked.get(number);
    unpacked.delete(number);
    unpacked.set(number, known);
    return known;
  }
  if (typeof DecompressionStream === "undefined") throw new Error("this browser cannot unpack gzip data; use one from 2023 or later");
  const packed = atob(document.getElementById("chunk-" + number).textContent);
  const bytes = new Uint8Array(packed.length);
  for (let i = 0; i < packed.length; i++) bytes[i] = packed.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const chunk = new Chunk(JSON.parse(await new Response(stream).text()));
  unpacked.set(number, chunk);
  while (unpacked.size > KEPT) unpacked.delete(unpacked.keys().next().value);
  return chunk;
}

class Chunk {
  constructor(raw) {
    this.raw = raw;
    this.size = raw.reward.length;
    this.trajectory = new Int32Array(this.size);
    raw.starts.forEach((start, i) => this.trajectory.fill(i, start, raw.starts[i + 1] ?? this.size));
    this.places = {};
    for (const [name, sums] of Object.entries(raw.sums)) {
      this.places[name] = sums.map((sum) => sum.terms.map((term) => {
        if (!term.rows) return null;
        const place = new Int32Array(this.size).fill(-1);
        term.rows.forEach((row, i) => { place[row] = i; });
        return place;
      }));
    }
  }
  join(lines) { return lines.map((line) => this.raw.lines[line]).join("\n"); }
  text(code) {
    if (code === undefined || code === null || code < 0) return null;
    const stored = this.raw.texts[code];
    if (Array.isArray(stored)) return { head: this.join(stored), cut: 0, tail: "" };
    return { head: this.join(stored.head), cut: stored.cut, tail: this.join(stored.tail) };
  }
  column(name, row) { const column = this.raw[name]; return column ? this.text(column[row]) : null; }
  has(name) { return name in this.raw; }
  value(name, row) { return this.raw.numbers[this.raw[name][row]]; }
  advantage(name, row) { return this.raw.numbers[this.raw.advantages[name][row]]; }
  label(level, row) { return this.raw.levels[level][row]; }
  stepIndex(row) { return row - this.raw.starts[this.trajectory[row]]; }
  start(row) { return this.raw.starts[this.trajectory[row]]; }
  end(row) { return this.raw.starts[this.trajectory[row] + 1] ?? this.size; }
  trajectoryName(row) { return this.text(this.raw.names[this.trajectory[row]]).head; }
  // The arithmetic of one step: its sums, the last of which is the advantage, each with one entry per term.
  sums(name, row) {
    return this.raw.sums[name].map((sum, i) => ({
      name: sum.name, kind: sum.kind, formula: sum.formula, total: this.raw.numbers[sum.total[row]],
      terms: sum.terms.map((term, j) => this.term(term, this.places[name][i][j], row)),
    }));
  }
  term(term, places, row) {
    const place = places ? places[row] : row;
    if (place < 0) return { name: term.name, absent: true };
    const group = term.group[row], numbers = this.raw.numbers;
    const of = (key) => term[key] ? numbers[term[key][group]] : term["step_" + key] ? numbers[term["step_" + key][place]] : null;
    const score = term.score ? numbers[term.score[place]] : this.value("return", row), baseline = of("baseline");
    return {
      name: term.name, members: term.members, size: numbers[term.size[group]], score, baseline, divisor: of("divisor"),
      deviation: score - baseline, value: numbers[term.value[place]], weight: of("weight"), own: of("own"), soFar: of("so_far"),
    };
  }
  // Where the compared score comes from, unless it is the return: summands of the step itself and of those that follow.
  score(name, row) {
    const score = this.raw.scores[name], numbers = this.raw.numbers;
    if (!score) return null;
    const made = { name: score.name, formula: score.formula, total: numbers[score.total[row]], parts: score.parts.map((part) => ({ name: part.name, weight: part.weight, value: numbers[part.value[row]] })), following: null };
    if (score.following) {
      const { name: what, factor, value, columns } = score.following, names = Object.keys(columns);
      made.following = { name: what, factor, names, steps: [] };
      for (let later = row; later < this.end(row); later++) made.following.steps.push({ step: this.stepIndex(later), factor: factor ** (later - row), value: numbers[value[later]], columns: names.map((column) => numbers[columns[column][later]]) });
    }
    return made;
  }
}
