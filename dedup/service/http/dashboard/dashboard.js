// The dashboard: asks /v1/overview every two seconds and shows it (drawing.js); looks pages up.
"use strict";

const EVERY_MS = 2000;
let token = sessionStorage.getItem("dedup-token");
let recipes = {}, latest = null;

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

// ------------------------------------------------------------------------------------------ charts

function rates(history) {
  const since = history.seconds.length ? history.seconds.at(-1) - 60 * Number($("range").value) : 0;
  const first = history.seconds.findIndex((seconds) => seconds >= since), times = history.seconds.slice(first);
  const of = (field) => history[field].slice(first);
  const perSecond = (field) => of(field).map((n, i) => n / Math.max(0.5, i ? times[i] - times[i - 1] : 2));
  const rate = (n) => n.toLocaleString("en", { maximumFractionDigits: n < 10 ? 1 : 0 });
  const judged = [["unique", "unique", "unique"], ["near", "near-duplicates", "near_duplicates"],
    ["refetch", "fetched again", "refetches"], ["exempt", "exempt", "exempt"]];
  const beside = [["probes", "probes", "probes"], ["errors", "errors", "errors"]];
  chart("rates", { title: "Pages a second", times, least: 1, tick: rate, shown: rate,
    series: [...judged, ...($("only").value ? [] : beside)].map(([kind, name, field]) => [kind, name, perSecond(field)]) });

  const all = times.map((_, i) => judged.reduce((sum, [, , field]) => sum + of(field)[i], 0));
  const shares = of("near_duplicates").map((n, i) => (all[i] ? n / all[i] : null));
  chart("share", { title: "Share of near-duplicates", times, least: 1, tick: (n) => `${Math.round(100 * n)} %`,
    shown: (n) => percent(n, 1), series: [["near", "near-duplicates", shares]] });

  const ms = (field) => of(field).map((seconds) => (seconds === null ? null : 1000 * seconds));
  const told = (n) => `${n.toLocaleString("en", { maximumFractionDigits: 3 })} ms`;
  chart("latency", { title: "Response time", times, least: 0.01, tick: told, shown: (n) => `up to ${told(n)}`,
    series: [["unique", "median", ms("median_seconds")], ["near slow", "99th percentile", ms("slow_seconds")]] });
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
  log_status: ["Kafka", String], log_lag_records: ["lag", (n) => counted(n, "record")],
  log_behind_seconds: ["lagging for", (s) => (s ? duration(s) : "no lag")],
  log_manifest_age_seconds: ["snapshot of the log", (s) => `${duration(s)} ago`],
};

function facts(o) {
  const only = $("only").value, chosen = o.namespaces.filter((ns) => !only || ns.name === only);
  const sum = (field) => chosen.reduce((total, ns) => total + ns[field], 0);
  const judged = sum("judged"), near = sum("near_duplicates"), dropped = sum("dropped");
  const ages = chosen.map((ns) => ns.snapshot_age_seconds).filter((age) => age !== null);
  const pairs = [["documents", number(sum("documents"))], ["in flight", number(sum("in_flight"))],
    ["judged", number(judged)], ["near-duplicates", number(near)], ["share", percent(near, judged)],
    ["saved*", [`${number(dropped)} `, made("small", percent(dropped, judged))]],
    ["memory", bytes(o.memory_bytes)], ["tables", bytes(sum("table_bytes"))], ["on disk", bytes(sum("file_bytes"))],
    ["running for", duration(o.uptime_seconds)]];
  if (ages.length) pairs.push(["index written", `${duration(Math.max(...ages))} ago`]);  // a small store has none while it is served
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
    return [h.domain || "-", h.judged, h.near_duplicates, made("td", share, { class: `number ${kind}` }),
      bar(h.near_duplicates, h.judged, kind)];
  });
  const parts = [table(["domain", "judged", "near-dup.", "share", ""], rows, "Nothing was judged yet.")];
  const over = hosts.filter(isOver).map((h) => h.domain || "-");
  if (over.length) {
    parts.push(made("p", `Over 60 % near-duplicates: ${over.join(", ")}. An error page, a consent wall or a template looks like this.`, { class: "warned" }));
  }
  return parts;
}

function hot(hot) {
  const rows = hot.map((h) => [made("td", [leads(h.namespace, h.key), made("small", h.namespace)], { class: "key" }), h.near_duplicates]);
  return table(["document, and its namespace", "near-dup."], rows, "None yet.");
}

function namespaces(namespaces) {
  const rows = namespaces.map((n) => [n.name, n.documents, n.in_flight, n.judged, percent(n.near_duplicates, n.judged),
    bytes(n.table_bytes), bytes(n.file_bytes), n.snapshot_age_seconds === null ? "-" : duration(n.snapshot_age_seconds)]);
  return table(["name", "documents", "in flight", "judged", "near-dup.", "table", "on disk", "index written"], rows,
    "There is none yet: a crawl makes its own.");
}

const since = (seconds) => duration(Math.max(0, Date.now() / 1000 - seconds));

function clients(clients) {
  const rows = clients.map((c) => [c.name || "(no name)", c.address || "local", c.namespace || "-", since(c.connected_seconds), c.judged,
    c.near_duplicates, percent(c.near_duplicates, c.judged)]);
  return table(["client", "address", "namespace", "connected for", "judged", "near-dup.", "share"], rows, "None is connected.");
}

function drops(drops) {
  const rows = drops.map((d) => [clock(d.judged_seconds), made("td", [leads(d.namespace, d.key)], { class: "key" }),
    made("td", [leads(d.namespace, d.of)], { class: "key" }), `${Math.floor(100 * d.similarity)} %`,
    made("td", d.differs.join(", ") || "nothing that a fingerprint shows", { class: "words" })]);
  return table(["time", "page", "near-duplicate of", "similar", "differs in"], rows, "None yet.");
}

function choices(o) {
  recipes = Object.fromEntries(o.namespaces.map((n) => [n.name, n.recipe]));
  const names = Object.keys(recipes).sort(), chosen = $("where").value, only = $("only").value;
  if (names.join() !== [...$("where").options].map((option) => option.value).join()) {
    const options = () => names.map((name) => made("option", name, { value: name }));
    $("only").replaceChildren(made("option", "all", { value: "" }), ...options());
    if (names.includes(only)) $("only").value = only;
    $("where").replaceChildren(...options());
    if (names.includes(chosen)) $("where").value = chosen;
    else if (o.namespaces.length) $("where").value = o.namespaces[0].name;  // the busiest
  }
}

// What a distance finds, all those below it find, too: so this is also what a smaller one would have found.
function distances(distances) {
  const most = Math.max(...distances), all = distances.reduce((sum, n) => sum + n, 0);
  let within = 0;
  const rows = distances.map((n, bits) => [counted(bits, "bit"), n, within += n, percent(within, all), bar(n, most)]);
  return table(["distance", "pages", "up to it", "of all", ""], most ? rows : [], "No near-duplicate yet.");
}

function exempt({ exempt, labels }) {
  const listed = Object.entries(exempt), most = Math.max(...listed.map(([, n]) => n));
  const rows = listed.map(([reason, n]) => [`${labels[reason]} (${reason})`, n, bar(n, most, "kept")]);
  return table(["reason", "pages", ""], rows, "Every page was judged.");
}

function state(o) {
  const kind = { ok: "ready", stale: "warning", partial: "warning", not_ready: "warning" }[o.state];
  $("state").className = kind;
  $("state").textContent = { ok: "ready", stale: "stale", partial: "partly ready", not_ready: "not ready" }[o.state] + (o.reason ? `: ${o.reason}` : "");
  $("version").textContent = o.version;
}

let waiting = 0;

async function update() {
  clearTimeout(waiting);
  try {
    const only = $("only").value, o = await ask(`/v1/overview${only && `?ns=${encodeURIComponent(only)}`}`);
    if (only !== $("only").value) return;  // another one was chosen meanwhile, and asked for
    $("access").hidden = true;
    $("main").hidden = false;
    state(o); latest = o.history; rates(latest); choices(o);
    redraw("facts", o, facts); redraw("distances", o.distances, distances); redraw("hosts", o.hosts, hosts);
    redraw("namespaces", o.namespaces, namespaces); redraw("hot", o.hot, hot);
    redraw("exempt", { exempt: o.exempt, labels: o.labels }, exempt);
    redraw("clients", o.clients, clients); redraw("drops", o.drops, drops);
    for (const each of document.querySelectorAll(".all")) each.hidden = !only;
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
  waiting = setTimeout(update, EVERY_MS);
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

const moment = (seconds) => `${new Date(1000 * seconds).toISOString().slice(0, 19).replace("T", " ")} UTC`;
const similar = (similarity) => `${Math.floor(100 * similarity)} % similar`;

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
  return made("article", [made("h3", found.key), made("p", [made("code", found.value),
    ` value, ${counted(found.features, "feature")}; domain ${found.domain || "-"}; inserted ${moment(found.inserted_seconds)}`]), forget]);
}

// A link that looks another page up.
function leads(namespace, key) {
  const link = made("a", key, { href: "#found", title: key });
  link.addEventListener("click", () => { $("where").value = namespace; $("what").value = key; $("found").focus(); lookUp(); });
  return link;
}

// What was found to be a near-duplicate is not stored: it is said of what, and when.
function shownCopy(namespace, copy) {
  return made("article", [made("h3", copy.key), made("p", ["Not stored: a near-duplicate of ", leads(namespace, copy.of)]),
    made("p", [`${counted(copy.distance, "bit")} apart, ${similar(copy.similarity)}; judged ${moment(copy.judged_seconds)}; value `,
      made("code", copy.value)])]);
}

function shownCopies(namespace, copies) {
  const rows = copies.map((copy) => [made("td", [leads(namespace, copy.key)], { class: "key" }), copy.distance,
    `${Math.floor(100 * copy.similarity)} %`, moment(copy.judged_seconds)]);
  const last = copies.length === 50 ? "the last " : "";
  return [made("p", `${last}${counted(copies.length, "near-duplicate")} of it, judged lately; they are not stored`),
    table(["near-duplicate", "bits apart", "similar", "judged"], rows, "")];
}

async function lookUp() {
  const namespace = $("where").value, what = $("what").value.trim(), shown = $("found");
  shown.replaceChildren(made("p", "looking"));
  try {
    const found = await documentOf(namespace, what);
    const isFingerprint = /^[0-9a-f]{16}$/i.test(what), asked = isFingerprint ? what.toLowerCase() : what;
    const query = `ns=${encodeURIComponent(namespace)}&key=${encodeURIComponent(asked)}`;
    const seen = (await ask(`/v1/near-duplicates?${query}`)).results;
    const copies = seen.filter((copy) => copy.of === what), itself = seen.filter((copy) => copy.of !== what);
    if (!found && !isFingerprint && !itself.length) {
      shown.replaceChildren(made("p", "There is no document with this key, nor was a near-duplicate with it judged lately."));
      return;
    }
    const value = found ? found.value : itself.length ? itself[0].value : asked;
    const sketch = found ? found.sketch : "0".repeat(74), domain = found ? found.domain : "";
    const probed = await ask("/v1/probe", { ns: namespace, recipe: recipes[namespace], distance: Number($("within").value),
      similarity: 0, count: 50, pages: [{ value, sketch, domain }] });
    const near = probed.results[0].filter((n) => !found || n.key !== found.key);
    const parts = found ? [shownDocument(namespace, found)] : itself.map((copy) => shownCopy(namespace, copy));
    if (copies.length) parts.push(...shownCopies(namespace, copies));
    const within = counted(Number($("within").value), "bit"), many = probed.results[0].length === 50 ? "; there may be more" : "";
    const others = near.length ? counted(near.length, found ? "other stored page" : "stored page") : "No other page is stored";
    parts.push(made("p", `${others} within ${within}${many}`));
    if (near.length) {
      const squares = [["one", "1"], ["zero", "0"], ["differs", "differs"]];
      parts.push(made("p", squares.map(([kind, name]) => made("span", [made("i", "", { class: kind }), name])), { class: "legend" }));
    }
    for (const n of near) {
      const other = await documentOf(namespace, n.key);
      if (!other) continue;
      const told = found ? `, ${similar(n.similarity)}` : "";
      parts.push(made("article", [made("h3", n.key), made("p", [`${counted(n.distance, "bit")}${told}; value `, made("code", other.value)]),
        bits(BigInt(`0x${value}`), BigInt(`0x${other.value}`))]));
    }
    shown.replaceChildren(...parts);
  } catch (error) {
    shown.replaceChildren(made("p", problem(error)));
  }
}

for (let k = 0; k <= 15; k += 1) $("within").append(made("option", counted(k, "bit"), { value: k }));
$("within").value = 8;
$("only").addEventListener("change", () => { if ($("only").value) $("where").value = $("only").value; update(); });
$("range").addEventListener("change", () => { if (latest) rates(latest); });
addEventListener("resize", () => { if (latest) rates(latest); });
$("look").addEventListener("submit", (event) => { event.preventDefault(); lookUp(); });
$("access").addEventListener("submit", (event) => {
  event.preventDefault();
  token = $("token").value;
  sessionStorage.setItem("dedup-token", token);
  update();
});
update();
