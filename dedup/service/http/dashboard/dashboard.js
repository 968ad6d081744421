// The dashboard: asks /v1/overview every two seconds and draws it; looks pages up.
//
// The rule kept here: whatever comes from the service is put into the page as text, never as markup.
"use strict";

const EVERY_MS = 2000;
const $ = (id) => document.getElementById(id);
const number = (n) => Math.round(n).toLocaleString("en");
const percent = (part, whole) => (whole ? `${(100 * part / whole).toFixed(1)} %` : "-");
let token = sessionStorage.getItem("dedup-token");
let recipes = {};

// ------------------------------------------------------------------------------------ the service

class Refused extends Error {}

async function ask(path, body) {
  const headers = {};
  if (token) headers.Authorization = `Bearer ${token}`;
  const options = { headers };
  if (body !== undefined) {
    headers["Content-Type"] = "application/json";
    options.method = "POST";
    options.body = JSON.stringify(body);
  }
  const answer = await fetch(path, options);
  if (answer.status === 401) throw new Refused();
  const told = await answer.json();
  if (!answer.ok) throw new Error(told.error ? told.error.message : `status ${answer.status}`);
  return told;
}

// --------------------------------------------------------------------------------------- elements

function made(tag, content = "", more = {}) {
  const element = document.createElement(tag);
  if (Array.isArray(content)) element.append(...content);
  else element.textContent = content;
  for (const [name, value] of Object.entries(more)) element.setAttribute(name, value);
  return element;
}

const counted = (n, one) => `${number(n)} ${n === 1 ? one : `${one}s`}`;
const isNumber = (value) => typeof value === "number" || /^[\d.,]+ (%|[kMGT]?B|d|h|min|s)$|^-$/.test(value);

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
  return made("div", [made("table", [made("thead", [made("tr", head)]), made("tbody", body)])], { class: "wide" });
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

function drawn(tag, more) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(more)) element.setAttribute(name, value);
  return element;
}

// series: [class, name, numbers, last as text]; all on one scale from 0 to most, over so many seconds
function chart(series, most, unit, seconds) {
  const width = 600, height = 100, top = Math.max(most, 1e-9);
  const svg = drawn("svg", { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img" });
  svg.setAttribute("aria-label", series.map(([, name, , last]) => `${name} ${last}`).join(", "));
  for (const y of [0.5, height / 2, height - 0.5]) svg.append(drawn("line", { x1: 0, x2: width, y1: y, y2: y }));
  for (const [kind, , numbers] of series) {
    let path = "", pen = "M";
    numbers.forEach((n, i) => {
      if (n === null) { pen = "M"; return; }
      const x = width * i / Math.max(1, numbers.length - 1);
      path += `${pen}${x.toFixed(1)} ${(height - 1 - (height - 2) * n / top).toFixed(1)}`;
      pen = "L";
    });
    svg.append(drawn("path", { d: path, class: kind }));
  }
  const names = series.map(([kind, name, , last]) => made("span", [made("i", "", { class: kind }), `${name} ${last}`]));
  names.push(made("span", `${seconds ? `last ${duration(seconds)}, ` : ""}0 to ${unit(most)}`, { class: "note" }));
  return [svg, made("p", names, { class: "legend" })];
}

function rates(history) {
  const times = history.seconds;
  const perSecond = (counts) => counts.map((n, i) => n / Math.max(0.5, i ? times[i] - times[i - 1] : 2));
  const shown = [["unique", "unique", "unique"], ["near", "near-duplicates", "near_duplicates"],
    ["refetch", "fetched again", "refetches"], ["exempt", "exempt", "exempt"]];
  const beside = [["probes", "probes", "probes"], ["errors", "errors", "errors"]];
  const series = [...shown, ...beside].map(([kind, name, field]) => {
    const numbers = perSecond(history[field]);
    return [kind, name, numbers, number(numbers.length ? numbers.at(-1) : 0)];
  });
  const most = Math.max(1, ...series.flatMap(([, , numbers]) => numbers));
  const span = times.length > 1 ? times.at(-1) - times[0] : 0;
  $("rates").replaceChildren(...chart(series, most, (n) => `${number(n)} a second`, span));

  const all = times.map((_, i) => shown.reduce((sum, [, , field]) => sum + history[field][i], 0));
  const shares = all.map((n, i) => (n ? history.near_duplicates[i] / n : null));
  const latest = shares.findLast((share) => share !== null);
  const told = latest === undefined ? "-" : percent(latest, 1);
  $("share").replaceChildren(...chart([["near", "near-duplicates", shares, told]], 1, () => "100 %", span));
}

// ---------------------------------------------------------------------------------------- overview

function duration(seconds) {
  const units = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  const [name, size] = units.find(([, size]) => seconds >= size) || units.at(-1);
  return `${Math.floor(seconds / size)} ${name}`;
}

function bytes(n) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let i = 0;
  while (n >= 1000 && i < units.length - 1) { n /= 1000; i += 1; }
  return `${n.toFixed(i ? 1 : 0)} ${units[i]}`;
}

const SUSPICIOUS = 0.6;  // near-duplicates among the judged pages of a domain
const LOG = {
  log_status: ["log", String], log_lag_records: ["behind the log", (n) => counted(n, "record")],
  log_behind_seconds: ["up to date since", (s) => (s ? `${duration(s)} not` : "now")],
  log_manifest_age_seconds: ["log snapshot", (s) => `${duration(s)} ago`],
};

function facts(o) {
  const sum = (field) => o.namespaces.reduce((total, ns) => total + ns[field], 0);
  const judged = ["unique", "near_duplicate", "refetch", "exempt"].reduce((n, v) => n + (o.verdicts[v] || 0), 0);
  const near = o.verdicts.near_duplicate || 0;
  const ages = o.namespaces.map((ns) => ns.snapshot_age_seconds).filter((age) => age !== null);
  const pairs = [["documents", number(sum("documents"))], ["in flight", number(sum("in_flight"))],
    ["judged", number(judged)], ["near-duplicates", number(near)], ["share", percent(near, judged)],
    ["memory", bytes(o.memory_bytes)], ["tables", bytes(sum("table_bytes"))], ["on disk", bytes(sum("file_bytes"))],
    ["oldest snapshot", ages.length ? `${duration(Math.max(...ages))} ago` : "none yet"],
    ["running for", duration(o.uptime_seconds)]];
  if (o.partitions !== "*") pairs.push(["partitions", `${o.partitions} of ${o.partition_count}`]);
  for (const [name, value] of Object.entries(o.log || {})) {
    const [title, shown] = LOG[name] || [name.replaceAll("_", " "), String];
    pairs.push([title, shown(value)]);
  }
  return pairs.map(([name, value]) => made("div", [made("dt", name), made("dd", value)]));
}

function hosts(hosts) {
  const isOver = (h) => h.judged >= 20 && h.near_duplicates > SUSPICIOUS * h.judged;
  const rows = hosts.map((h) => {
    const kind = isOver(h) ? "over" : "", share = percent(h.near_duplicates, h.judged);
    return [h.domain || "-", h.judged, h.near_duplicates, made("td", share, { class: `number ${kind}` }), h.rules,
      bar(h.near_duplicates, h.judged, kind)];
  });
  const parts = [table(["domain", "judged", "near-dup.", "share", "URL rules", ""], rows, "Nothing was judged yet.")];
  const over = hosts.filter(isOver).map((h) => h.domain || "-");
  if (over.length) {
    parts.push(made("p", `Over 60 % near-duplicates: ${over.join(", ")}. An error page, a consent wall or a template looks like this.`, { class: "warned" }));
  }
  return parts;
}

function hot(hot) {
  const rows = hot.map((h) => {
    const look = made("a", h.key, { href: "#found", title: h.key });
    look.addEventListener("click", () => { $("where").value = h.namespace; $("what").value = h.key; $("found").focus(); lookUp(); });
    return [made("td", [look, made("small", h.namespace)], { class: "key" }), h.near_duplicates];
  });
  return table(["document, and its namespace", "near-dup."], rows, "None yet.");
}

function namespaces(namespaces) {
  const rows = namespaces.map((n) => [n.name, n.documents, n.in_flight, n.judged, percent(n.near_duplicates, n.judged),
    bytes(n.table_bytes), bytes(n.file_bytes), n.snapshot_age_seconds === null ? "-" : duration(n.snapshot_age_seconds)]);
  return table(["name", "documents", "in flight", "judged", "near-dup.", "table", "on disk", "snapshot"], rows,
    "There is none yet: a crawl makes its own.");
}

function choices(o) {
  recipes = Object.fromEntries(o.namespaces.map((n) => [n.name, n.recipe]));
  const names = Object.keys(recipes).sort(), chosen = $("where").value;
  if (names.join() !== [...$("where").options].map((option) => option.value).join()) {
    $("where").replaceChildren(...names.map((name) => made("option", name, { value: name })));
    if (names.includes(chosen)) $("where").value = chosen;
    else if (o.namespaces.length) $("where").value = o.namespaces[0].name;  // the busiest
  }
}

function distances(distances) {
  const most = Math.max(...distances);
  const rows = distances.map((n, bits) => [counted(bits, "bit"), n, bar(n, most)]);
  return table(["distance", "pages", ""], most ? rows : [], "No near-duplicate yet.");
}

function state(o) {
  const kind = { ok: "ready", stale: "warning", not_ready: "warning" }[o.state];
  $("state").className = kind;
  $("state").textContent = { ok: "ready", stale: "stale", not_ready: "not ready" }[o.state] + (o.reason ? `: ${o.reason}` : "");
  $("version").textContent = o.version;
}

async function update() {
  try {
    const o = await ask("/v1/overview");
    $("access").hidden = true;
    $("main").hidden = false;
    state(o); rates(o.history); choices(o);
    redraw("facts", o, facts); redraw("distances", o.distances, distances); redraw("hosts", o.hosts, hosts);
    redraw("namespaces", o.namespaces, namespaces); redraw("hot", o.hot, hot);
  } catch (error) {
    if (error instanceof Refused) {
      $("state").textContent = token ? "the token is wrong" : "locked";
      $("state").className = token ? "wrong" : "";
      $("access").hidden = false;
      $("main").hidden = true;
      return;  // until a token is given
    }
    $("state").textContent = `no answer from the service (${error.message})`;
    $("state").className = "wrong";
  }
  setTimeout(update, EVERY_MS);
}

// --------------------------------------------------------------------------------------- look up

function bits(value, other) {
  const differs = value ^ other, squares = [];
  for (let i = 63n; i >= 0n; i -= 1n) {
    const kind = (differs >> i) & 1n ? "differs" : (value >> i) & 1n ? "one" : "";
    squares.push(made("i", "", kind ? { class: kind } : {}));
  }
  const count = [...differs.toString(2)].filter((bit) => bit === "1").length;
  const told = `64 bits, the leading one first; ${count} differ`;
  return made("div", squares, { class: "bits", role: "img", "aria-label": told });
}

async function documentOf(namespace, key) {
  try {
    return await ask(`/v1/documents?ns=${encodeURIComponent(namespace)}&key=${encodeURIComponent(key)}`);
  } catch (error) {
    if (error instanceof Refused) throw error;
    return null;
  }
}

const problem = (error) => (error instanceof Refused ? "the token is wrong" : error.message);

function shownDocument(namespace, found) {
  const forget = made("button", "Forget this document", { type: "button" });
  forget.addEventListener("click", async () => {
    if (!confirm(`Forget ${found.key}? A page like it will be unique again.`)) return;
    try {
      const told = await ask("/v1/forget", { ns: namespace, keys: [found.key] });
      forget.replaceWith(made("p", told.results[0].done ? "Forgotten." : "It was not there any more."));
    } catch (error) {
      forget.after(made("p", `It was not forgotten: ${problem(error)}.`, { role: "alert" }));
    }
  });
  const when = new Date(1000 * found.inserted_seconds).toISOString().slice(0, 19).replace("T", " ");
  return made("article", [made("h3", found.key),
    made("p", [made("code", found.value), ` value, ${counted(found.features, "feature")}; domain ${found.domain || "-"}; inserted ${when} UTC`]),
    forget]);
}

async function lookUp() {
  const namespace = $("where").value, what = $("what").value.trim(), shown = $("found");
  shown.replaceChildren(made("p", "looking"));
  try {
    const found = await documentOf(namespace, what);
    const isFingerprint = /^[0-9a-f]{16}$/i.test(what);
    if (!found && !isFingerprint) {
      shown.replaceChildren(made("p", "There is no document with this key in this namespace. A key is the canonical URL that was requested first."));
      return;
    }
    const value = found ? found.value : what.toLowerCase();
    const sketch = found ? found.sketch : "0".repeat(74), domain = found ? found.domain : "";
    const probed = await ask("/v1/probe", { ns: namespace, recipe: recipes[namespace], distance: Number($("within").value),
      similarity: 0, count: 50, pages: [{ value, sketch, domain }] });
    const near = probed.results[0].filter((n) => !found || n.key !== found.key);
    const parts = found ? [shownDocument(namespace, found)] : [];
    const within = counted(Number($("within").value), "bit"), many = probed.results[0].length === 50 ? "; there may be more" : "";
    parts.push(made("p", `${counted(near.length, "stored neighbour")} within ${within}${many}`));
    if (near.length) {
      const squares = [["one", "1"], ["zero", "0"], ["differs", "differs"]];
      parts.push(made("p", squares.map(([kind, name]) => made("span", [made("i", "", { class: kind }), name])), { class: "legend" }));
    }
    for (const n of near) {
      const other = await documentOf(namespace, n.key);
      if (!other) continue;
      const alike = found ? `, ${Math.round(100 * n.similarity)} % of the word triples alike` : "";
      parts.push(made("article", [made("h3", n.key), made("p", [`${counted(n.distance, "bit")}${alike}; value `, made("code", other.value)]),
        bits(BigInt(`0x${value}`), BigInt(`0x${other.value}`))]));
    }
    shown.replaceChildren(...parts);
  } catch (error) {
    shown.replaceChildren(made("p", problem(error)));
  }
}

for (let k = 0; k <= 15; k += 1) $("within").append(made("option", counted(k, "bit"), { value: k }));
$("within").value = 8;
$("look").addEventListener("submit", (event) => { event.preventDefault(); lookUp(); });
$("access").addEventListener("submit", (event) => {
  event.preventDefault();
  token = $("token").value;
  sessionStorage.setItem("dedup-token", token);
  update();
});
update();
