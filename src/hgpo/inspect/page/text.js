// Rollout text is untrusted. It reaches the page through this file only, as text nodes, and characters that
// would hide or reorder something are written out.
"use strict";
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

function element(name, properties, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties || {})) {
    if (value === null || value === undefined) continue;
    if (key === "on") for (const [event, react] of Object.entries(value)) made.addEventListener(event, react);
    else if (key === "style") Object.assign(made.style, value);
    else made.setAttribute(key, value);
  }
  for (const child of children.flat()) {
    if (child === null || child === undefined) continue;
    made.append(child instanceof Node ? child : visible(String(child)));
  }
  return made;
}

function visible(text) {
  const whole = document.createDocumentFragment();
  let last = 0;
  for (const match of text.matchAll(HIDDEN)) {
    if (match.index > last) whole.append(document.createTextNode(text.slice(last, match.index)));
    const mark = document.createElement("span");
    mark.className = "mark";
    mark.textContent = "U+" + match[0].charCodeAt(0).toString(16).toUpperCase().padStart(4, "0");
    whole.append(mark);
    last = match.index + match[0].length;
  }
  if (last < text.length) whole.append(document.createTextNode(text.slice(last)));
  return whole;
}

// Plain text for places that take no elements (a canvas, a tooltip, an SVG label).
function plain(text, limit) {
  const cut = text.length > limit ? text.slice(0, limit) + "…" : text;
  return cut.replace(/\s+/g, " ").replace(HIDDEN, "�");
}

// A recorded text {lines, cut, tail} as an inline element or a block.
function recorded(text, kind, properties) {
  const made = element(kind === "block" ? "div" : "span", { class: kind === "block" ? "block" : "text", dir: "auto", ...properties });
  if (text === null) { made.append(element("i", { class: "note" }, "not recorded")); return made; }
  made.append(visible(text.head));
  if (text.cut) {
    made.append(element("span", { class: "cut" }, `… ${text.cut.toLocaleString("en")} characters left out to keep this page small …`));
    made.append(visible(text.tail));
  }
  return made;
}

// A table whose cells know their heading: where it is too wide for its place, each row is laid out as a small card.
function labelled(heads, table) {
  for (const row of table.querySelectorAll("tbody tr")) {
    let at = 0;
    for (const cell of row.children) {
      if (cell.textContent !== "") cell.dataset.head = heads[at] ?? "";
      at += Number(cell.getAttribute("colspan") || 1);
    }
  }
  return table;
}

// Numbers. `shown` rounds half to even, as Python's format does, so that both show the same digits.
function shown(value, digits = 4) {
  if (value === null || value === undefined) return "–";
  if (!Number.isFinite(value)) return String(value);
  const size = Math.abs(value);
  if (size !== 0 && (size >= 1e9 || size < 0.5 * 10 ** -digits)) return value.toExponential(3);
  let text = size.toFixed(digits);
  const exact = size.toFixed(Math.min(100, digits + 60));
  const rest = exact.slice(exact.indexOf(".") + 1 + digits);
  if (/^50*$/.test(rest) && digits > 0) {
    const down = exact.slice(0, exact.indexOf(".") + 1 + digits);
    if (Number(down[down.length - 1]) % 2 === 0) text = down;
  }
  return (value < 0 && Number(text) !== 0 ? "-" : "") + text;
}

function number(value, digits) {
  return element("span", { class: "number", "data-value": value === null || value === undefined ? "" : String(value), title: String(value) }, shown(value, digits));
}

function percent(share) {
  return share === null || share === undefined ? "–" : (100 * share).toFixed(1) + "%";
}

function count(value) {
  return Number(value).toLocaleString("en", { maximumFractionDigits: 0 });
}
