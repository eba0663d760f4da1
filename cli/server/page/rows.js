// Live rows of one source, step or output of a job, perhaps only those that meet a condition.

import { drawError } from "./dialog.js";
import { h } from "./dom.js";
import { formatClock, formatCount } from "./format.js";
import { link, openJob, redraw, refresh, state } from "./store.js";

const MOST_ROWS = 200;
const LONGEST_TEXT = 300;

export const rowsTab = { draw };

/** The tail of the open job: its rows, the newest first; emptied when another one begins. */
function tailOf(job) {
  job.tabs.rows ??= { from: null, where: "", rows: [], dropped: 0, missing: [], error: null, isPaused: false };
  return job.tabs.rows;
}

/** The streams that may be looked at: of sources and steps, with their columns. */
export function listStreams(graph) {
  return (graph?.parts ?? []).flatMap((part) => part.outputs ?? []);
}

function draw() {
  const { graph } = state.job, { part } = state.route;
  if (openJob().pid == null) return h("div", { class: "panel empty muted" }, "The job is not running, so no rows pass.");
  if (!graph) return h("p", { class: "muted empty" }, "Waiting for the graph …");
  const streams = listStreams(graph), tail = tailOf(state.job);
  const from = streams.some((each) => each.stream === part) ? part : null;
  if (tail.from !== from) begin(tail, from, "");
  else if (!state.job.takeRows) begin(tail, from, tail.where);
  const columns = (streams.find((each) => each.stream === from)?.columns ?? []).map((each) => each.name);
  return [
    drawForm(tail, streams),
    drawError(tail.error),
    from == null && h("div", { class: "panel empty muted" }, "Choose a source or step. At most 20 of its rows a second are shown; the job does not wait for them."),
    from != null && !tail.error && drawRows(tail, columns),
  ];
}

/** Want the rows of a stream from now on. */
function begin(tail, from, where) {
  const { job } = state;
  Object.assign(tail, { from, where, rows: [], dropped: 0, missing: [], error: null, isPaused: false });
  job.taps = from == null ? [] : [{ from, where: where || null }];
  job.takeRows = (kind, data) => take(tail, kind, data);
  queueMicrotask(refresh);
}

function take(tail, kind, data) {
  if (data.from !== tail.from || (data.where ?? "") !== tail.where || tail.isPaused) return;
  if (kind === "error") {
    tail.error = data.code === "not_running" ? null : data;
    return;
  }
  const now = Date.now();
  const rows = data.rows.map((row) => ({ at: now, row })).reverse();
  tail.rows = [...rows, ...tail.rows].slice(0, MOST_ROWS);
  tail.dropped += data.dropped;
  tail.missing = data.missing_columns;
  tail.error = null;
}

function drawForm(tail, streams) {
  const { name } = state.route;
  const submit = (event) => { event.preventDefault(); begin(tail, tail.from, event.target.elements.where.value.trim()); };
  return h("form", { class: "head tail", onsubmit: submit },
    h("select", { "aria-label": "Stream", onchange: (event) => { location.hash = link(name, "rows", event.target.value); } },
      h("option", { value: "", selected: tail.from == null }, "choose a stream"),
      streams.map((each) => h("option", { key: each.stream, value: each.stream, selected: each.stream === tail.from }, each.stream))),
    h("input", { key: tail.from, name: "where", class: "where mono", "aria-label": "Condition", placeholder: "only rows where … as in amount > 100", value: tail.where, spellcheck: "false", autocomplete: "off" }),
    h("button", { disabled: tail.from == null }, "Apply"),
    tail.from != null && h("button", { type: "button", onclick: () => { tail.isPaused = !tail.isPaused; redraw(); } }, tail.isPaused ? "Resume" : "Pause"),
    h("span", { class: "spring" }),
    tail.dropped > 0 && h("span", { class: "muted", role: "status" }, `${formatCount(tail.dropped)} rows dropped`));
}

function drawRows(tail, known) {
  const others = new Set(tail.rows.flatMap(({ row }) => Object.keys(row)));
  const columns = [...known.filter((name) => others.delete(name)), ...others];
  return [
    tail.missing.length > 0 && h("p", { class: "muted lead" }, "Left out, since nothing reads them later: ", h("span", { class: "mono" }, tail.missing.join(", "))),
    tail.rows.length === 0 ? h("div", { class: "panel empty muted" }, tail.where ? "No row has met the condition yet." : "No row has passed yet.")
      : h("div", { class: "panel scroll live" }, h("table", { class: "rows mono" },
        h("thead", null, h("tr", null, h("th", null, "seen"), columns.map((name) => h("th", null, name)))),
        h("tbody", null, tail.rows.map(({ at, row }) => h("tr", { class: row._delete ? "removed-row" : "" },
          h("td", { class: "muted" }, formatClock(at)), columns.map((name) => drawValue(row[name]))))))),
  ];
}

/** A cell of a row's value, as JSON where it is no text. */
export function drawValue(value) {
  const text = value == null ? "" : typeof value === "string" ? value : JSON.stringify(value);
  const isShort = text.length <= LONGEST_TEXT;
  return h("td", { class: typeof value === "number" ? "n" : value == null ? "muted" : "", title: isShort ? null : text.slice(0, 5000) },
    value == null ? "null" : isShort ? text : `${text.slice(0, LONGEST_TEXT)}…`);
}
