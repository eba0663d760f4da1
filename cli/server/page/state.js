// What the newest checkpoint of a job holds: the states of each step, and SQL over them.

import { getJson, jobPath, post } from "./api.js";
import { drawError } from "./dialog.js";
import { h } from "./dom.js";
import { formatBytes, formatClock, formatCount } from "./format.js";
import { drawValue } from "./rows.js";
import { redraw, state, viewSignal } from "./store.js";

export const stateTab = { draw };

function viewOf(job) {
  job.tabs.state ??= { contents: null, error: null, isBusy: false, sql: "", result: null, queryError: null };
  return job.tabs.state;
}

function draw() {
  const view = viewOf(state.job);
  if (!view.contents && !view.error && !view.isBusy) load(view);
  return [
    h("div", { class: "head" },
      view.contents ? h("span", null, "Checkpoint ", h("b", null, view.contents.checkpoint), h("span", { class: "muted" }, ` of ${formatClock(view.contents.time)}, ${formatBytes(view.contents.bytes)}`)) : h("span", { class: "muted" }, view.isBusy ? "Reading the newest checkpoint …" : ""),
      h("span", { class: "spring" }),
      h("button", { disabled: view.isBusy, onclick: () => load(view) }, "Read the newest")),
    drawError(view.error),
    view.contents && drawSteps(view),
    view.contents && drawQuery(view),
  ];
}

async function load(view) {
  const { name } = state.route, signal = viewSignal();
  Object.assign(view, { isBusy: true, error: null });
  redraw();
  try {
    view.contents = await getJson(jobPath(name, "state"), { signal });
  } catch (error) {
    if (!signal.aborted) view.error = error;
  }
  view.isBusy = false;
  redraw();
}

function drawSteps(view) {
  const steps = Object.entries(view.contents.steps);
  if (!steps.length) return h("div", { class: "panel empty muted" }, "No step of this job has state.");
  return h("div", { class: "panel scroll" }, h("table", { class: "rows" },
    h("thead", null, h("tr", null, ["step", "state", "key", "rows", "keys", "bytes", "largest keys"].map((head) => h("th", { class: /rows|^keys|bytes/.test(head) ? "n" : "" }, head)))),
    h("tbody", null, steps.flatMap(([step, found]) => Object.entries(found.states).map(([name, sizes]) => h("tr", { key: `${step} ${name}` },
      h("td", { class: "name" }, h("a", { href: location.hash, "data-row": true, title: "Query this state", onclick: (event) => { event.preventDefault(); ask(view, sizes.table); } }, step)), h("td", { class: "mono" }, name), h("td", { class: "mono" }, found.key.map((each) => each.name).join(", ")),
      h("td", { class: "n" }, formatCount(sizes.rows)), h("td", { class: "n" }, formatCount(sizes.keys)), h("td", { class: "n" }, formatBytes(sizes.bytes)),
      h("td", { class: "mono" }, (sizes.largest_keys ?? []).map((each) => h("span", { class: "tag" }, each.key.map((value) => (value == null ? "null" : String(value))).join(", "), h("span", { class: "muted" }, ` ${formatCount(each.rows)}`))), sizes.counted_rows != null && h("span", { class: "muted" }, ` of the first ${formatCount(sizes.counted_rows)} rows`))))))));
}

/** Show the first rows of a state. */
function ask(view, table) {
  view.sql = `select * from \`${table}\` limit 100`;
  view.table = table;
  run(view);
}

function drawQuery(view) {
  const submit = (event) => { event.preventDefault(); view.sql = event.target.elements.sql.value; run(view); };
  return h("section", null, h("h2", null, "Query"),
    h("form", { class: "form", onsubmit: submit },
      h("textarea", { key: view.table ?? "sql", name: "sql", rows: "3", spellcheck: "false", "aria-label": "SQL", placeholder: "select … from STEP where … ; SHOW TABLES lists all", value: view.sql,
        onkeydown: (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) event.target.form.requestSubmit(); } }),
      h("div", { class: "buttons" }, h("span", { class: "muted" }, "Reads the newest checkpoint. Ctrl-Enter runs it."), h("span", { class: "spring" }),
        view.stop && h("button", { type: "button", onclick: () => view.stop.abort() }, "Stop"),
        h("button", { class: "primary", disabled: view.stop != null }, view.stop ? "Running …" : "Run"))),
    drawError(view.queryError),
    view.result && drawResult(view.result));
}

async function run(view) {
  const { name } = state.route, stop = new AbortController();
  const signal = AbortSignal.any([stop.signal, viewSignal()]);
  view.stop?.abort();
  Object.assign(view, { stop, queryError: null });
  redraw();
  try {
    view.result = await post(jobPath(name, "state", "query"), { sql: view.sql }, { signal });
  } catch (error) {
    if (!signal.aborted) Object.assign(view, { queryError: error, result: null });
  }
  if (view.stop === stop) view.stop = null;
  redraw();
}

function drawResult({ columns, rows, is_cut: isCut, warnings }) {
  return [
    warnings.length > 0 && h("pre", { class: "panel text muted" }, warnings.join("\n")),
    h("p", { class: "muted lead" }, `${formatCount(rows.length)} rows`, isCut && ", and more"),
    rows.length > 0 && h("div", { class: "panel scroll live" }, h("table", { class: "rows mono" },
      h("thead", null, h("tr", null, columns.map((each) => h("th", { title: each.type }, each.name)))),
      h("tbody", null, rows.map((row) => h("tr", null, row.map(drawValue)))))),
  ];
}
