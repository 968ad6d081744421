// What the page is made of: elements, tables with bars, and charts over time.
//
// Invariant: whatever comes from the service is put into the page as text, never as markup.
"use strict";

const $ = (id) => document.getElementById(id);
const number = (n) => Math.round(n).toLocaleString("en");
const percent = (part, whole) => (whole ? `${(100 * part / whole).toFixed(1)} %` : "-");

// --------------------------------------------------------------------------------------- elements

function made(tag, content = "", more = {}) {
  const element = document.createElement(tag);
  if (Array.isArray(content)) element.append(...content);
  else element.textContent = content;
  for (const [name, value] of Object.entries(more)) element.setAttribute(name, value);
  return element;
}

const counted = (n, one) => `${number(n)} ${n === 1 ? one : `${one}s`}`;
const isNumber = (value) => typeof value === "number" || /^[\d.,]+ (%|[kMGT]?B|d|h|min|s)$|^-$|^\d\d:\d\d:\d\d$/.test(value);

// A cell is a number, a text, or a made td. Columns of numbers stand to the right.
function table(headers, rows, nothing) {
  if (!rows.length) return made("p", nothing, { class: "note" });
  const isRight = (value) => (value instanceof Node ? value.classList.contains("number") : isNumber(value));
  const right = headers.map((_, i) => rows.every((row) => isRight(row[i])));
  const kind = (i) => (right[i] ? { class: "number" } : {});
  const cell = (value, i) => {
    if (value instanceof Node) return value;
    return made("td", typeof value === "number" ? number(value) : value, kind(i));
  };
  const head = headers.map((name, i) => (name ? made("th", name, { scope: "col", ...kind(i) }) : made("td")));
  const body = rows.map((row) => made("tr", row.map(cell)));
  const named = headers.filter((name) => name).join(", ");  // focusable: on a phone it scrolls by itself
  return made("div", [made("table", [made("thead", [made("tr", head)]), made("tbody", body)])],
    { class: "wide", tabindex: 0, role: "group", "aria-label": named });
}

// A bar; its number stands beside it.
function bar(part, whole, kind = "") {
  const drawn = made("span");
  drawn.style.width = `${100 * part / Math.max(1, whole)}%`;
  return made("td", [drawn], { class: `bar ${kind}` });
}

// Draws a part of the page if its data changed, unless somebody is in it by keyboard.
const last = {};
function redraw(id, data, draw) {
  const told = JSON.stringify(data);
  if (last[id] === told || $(id).contains(document.activeElement)) return;
  last[id] = told;
  $(id).replaceChildren(...[draw(data)].flat());
}

// ------------------------------------------------------------------------------------------ charts
//
// A chart has two axes, lines, and a legend that reads out the time under the pointer, or the one that
// the arrow keys chose; without one, the latest. All charts show the same time.

const PLOT = { height: 190, right: 14, top: 12, bottom: 24 };
const DIGIT = 7;  // the width of a character of 12 pixels, at most
const TICKS = 4;  // on the vertical axis, about
const charts = {};
let pointed = null;  // Unix time

function drawn(tag, more, text = "") {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(more)) element.setAttribute(name, value);
  element.textContent = text;
  return element;
}

// 1, 2 or 5 times a power of ten: at most TICKS of them make up the greatest number.
function stepOf(most) {
  const size = 10 ** Math.floor(Math.log10(most / TICKS));
  return [1, 2, 5, 10].map((n) => n * size).find((step) => TICKS * step >= most * 0.999);
}

const clock = (seconds) => new Date(1000 * seconds).toLocaleTimeString("en-GB");

// given: title, times (Unix, in seconds), series of [class, name, numbers or null], least (what the axis
// reaches at least), tick and shown (a number as text: on the axis, in the legend)
function chart(id, given) {
  charts[id] = charts[id] || newChart(id);
  charts[id].given = given;
  draw(charts[id]);
}

function newChart(id) {
  const svg = drawn("svg", { role: "slider", tabindex: 0, "aria-valuemin": 0 });
  const one = { svg, legend: made("p", "", { class: "legend" }) };
  $(id).replaceChildren(svg, one.legend);
  svg.addEventListener("pointermove", (event) => {
    const { times } = one.given, x = event.clientX - svg.getBoundingClientRect().left;
    const away = times.map((time) => Math.abs(one.x(time) - x));
    point(times[away.indexOf(Math.min(...away))]);
  });
  svg.addEventListener("pointerleave", () => point(null));
  svg.addEventListener("blur", () => point(null));
  svg.addEventListener("keydown", (event) => {
    const { times } = one.given, end = times.length - 1, now = pointed === null ? end : at(times);
    const chosen = { ArrowLeft: now - 1, ArrowRight: now + 1, Home: 0, End: end }[event.key];
    if (chosen === undefined) return;
    event.preventDefault();
    point(times[Math.max(0, Math.min(end, chosen))]);
  });
  return one;
}

function point(time) {
  pointed = time === undefined ? null : time;
  for (const one of Object.values(charts)) draw(one);
}

// The place of the pointed time among these, or of the last.
function at(times) {
  const found = pointed === null ? -1 : times.findLastIndex((time) => time <= pointed);
  return found < 0 ? times.length - 1 : found;
}

function draw(one) {
  const { title, times, series, least, tick, shown } = one.given;
  const width = Math.max(260, one.svg.parentElement.clientWidth), { height, right, top, bottom } = PLOT;
  const step = stepOf(Math.max(least, ...series.flatMap(([, , numbers]) => numbers)));
  const most = step * Math.ceil(Math.max(least, ...series.flatMap(([, , numbers]) => numbers)) / step - 0.001);
  const ticks = [];
  for (let n = 0; n <= most * 1.001; n += step) ticks.push([n, tick(n)]);
  const left = 10 + DIGIT * Math.max(...ticks.map(([, text]) => text.length));
  const begin = times[0] || 0, span = Math.max(1, times.at(-1) - begin || 1);
  const y = (n) => height - bottom - (height - bottom - top) * n / most;
  one.x = (time) => left + (width - left - right) * (time - begin) / span;
  const parts = [];
  for (const [n, text] of ticks) {
    parts.push(drawn("line", { x1: left, x2: width - right, y1: y(n), y2: y(n) }));
    parts.push(drawn("text", { x: left - 6, y: y(n) + 4, "text-anchor": "end" }, text));
  }
  const labels = times.length ? Math.max(2, Math.floor((width - left) / 110)) : 0;
  for (let i = 0; i < labels; i += 1) {
    const time = begin + span * i / (labels - 1), anchor = i ? (i === labels - 1 ? "end" : "middle") : "start";
    parts.push(drawn("text", { x: one.x(time), y: height - 6, "text-anchor": anchor }, clock(time)));
  }
  for (const [kind, , numbers] of series) {
    let path = "", pen = "M";
    numbers.forEach((n, i) => {
      if (n === null) { pen = "M"; return; }
      path += `${pen}${one.x(times[i]).toFixed(1)} ${y(n).toFixed(1)}`;
      if (pen === "M") path += "h0.01";  // one alone is a dot
      pen = "L";
    });
    parts.push(drawn("path", { d: path, class: kind }));
  }
  const place = at(times), when = times.length ? clock(times[place]) : "no figures yet";
  if (pointed !== null && times.length) {
    const x = one.x(times[place]);
    parts.push(drawn("line", { x1: x, x2: x, y1: top, y2: height - bottom, class: "pointed" }));
  }
  const read = series.map(([kind, name, numbers]) => {
    const n = numbers[place];
    return [kind, `${name} ${n === null || n === undefined ? "-" : shown(n)}`];
  });
  one.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  one.svg.setAttribute("aria-label", `${title}: the arrow keys choose a time`);
  one.svg.setAttribute("aria-valuemax", Math.max(0, times.length - 1));
  one.svg.setAttribute("aria-valuenow", Math.max(0, place));
  one.svg.setAttribute("aria-valuetext", `${when}: ${read.map(([, told]) => told).join(", ")}`);
  one.svg.replaceChildren(...parts);
  one.legend.replaceChildren(made("span", when, { class: "note" }),
    ...read.map(([kind, told]) => made("span", [made("i", "", { class: kind }), told])));
}
