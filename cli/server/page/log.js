// The log of a job and its failures: those of the run, and how its earlier runs ended.

import { getText, jobPath } from "./api.js";
import { h } from "./dom.js";
import { formatBytes, formatClock, formatCount, formatDuration, formatPlace } from "./format.js";
import { drawStatus } from "./jobs.js";
import { redraw, state } from "./store.js";

const BYTES = 2 ** 17;
const QUIET = new Set(["progress", "checkpoint"]);
const BAD = new Set(["failure", "error", "restarting", "checkpoint_failed", "worker_lost", "not_done"]);
const view = { filter: "", showsAll: false };

export const logTab = {
  polls: ({ name }) => [
    { path: `${jobPath(name, "log")}?bytes=${BYTES}`, every: 2, key: "log", read: getText, take: (text) => { state.job.tabs.log = parseLog(text); } },
    { path: "/v1/history", every: 10, key: "history", take: (found) => { state.history = found.runs; } },
  ],
  draw,
};

function parseLog(text) {
  return text.split("\n").filter(Boolean).map((line) => {
    if (!line.startsWith('{"event":"')) return { text: line };
    try {
      const { event, time, pipeline, ...values } = JSON.parse(line);
      return pipeline === undefined ? { text: line } : { event, time, values };
    } catch {
      return { text: line };
    }
  });
}

function draw() {
  const lines = state.job.tabs.log;
  if (!lines) return h("p", { class: "muted empty" }, state.job.problems.log?.message ?? "Waiting for the log …");
  const shown = lines.filter((line) => (view.showsAll || !QUIET.has(line.event)) && matches(line));
  return [
    drawFailures(lines),
    h("div", { class: "head" }, h("h2", null, "Log"),
      h("input", { class: "filter", type: "search", placeholder: "Filter  /", "aria-label": "Filter the log", value: view.filter, oninput: (event) => { view.filter = event.target.value; redraw(); } }),
      h("label", { class: "check" }, h("input", { type: "checkbox", checked: view.showsAll, onchange: (event) => { view.showsAll = event.target.checked; redraw(); } }), " progress and checkpoints"),
      h("span", { class: "spring" }), h("span", { class: "muted" }, `the last ${formatBytes(BYTES)}`)),
    h("div", { class: "panel log", tabindex: "0", role: "log", "aria-label": "Log", onmount: (node) => { node.scrollTop = node.scrollHeight; } },
      shown.length ? shown.map(drawLine) : h("p", { class: "muted" }, "No line to show.")),
    drawRuns(),
  ];
}

function matches(line) {
  return !view.filter || describe(line).toLowerCase().includes(view.filter.toLowerCase());
}

function describe(line) {
  return line.text ?? `${line.event} ${describeValues(line)}`;
}

function drawLine(line) {
  if (line.text != null) return h("div", { class: "raw" }, line.text);
  return h("div", { class: BAD.has(line.event) ? "bad" : "" }, h("time", { title: line.time }, formatClock(line.time)), h("b", null, line.event), describeValues(line));
}

function describeValues({ event, values }) {
  if (event === "checkpoint") return `${values.number}, ${formatDuration(values.seconds)}, ${formatBytes(values.bytes)}`;
  if (event === "progress" || event === "summary") return `${values.status ? `${values.status}, ` : ""}${formatCount(values.rows_in)} rows in, ${formatCount(values.rows_out)} out`;
  return Object.entries(values).filter(([, value]) => value != null && value !== "" && !isEmpty(value))
    .map(([key, value]) => (key === "message" ? value : `${key}=${typeof value === "object" ? JSON.stringify(value) : value}`)).join("  ");
}

function isEmpty(value) {
  return typeof value === "object" && !Object.keys(value).length;
}

function drawFailures(lines) {
  const start = lines.findLastIndex((line) => line.event === "launched");
  const failures = lines.slice(start + 1).filter((line) => line.event === "restarting" || line.event === "failure").reverse();
  return failures.length > 0 && h("section", { class: "failures" }, h("h2", null, `Failures of this run: ${failures.length}`),
    h("ul", { class: "panel list" }, failures.slice(0, 20).map((line, at) => h("li", { key: `${line.time} ${at}` },
      h("div", { class: "line" }, h("span", { class: "muted" }, formatClock(line.time)), line.values.step && h("b", { class: "mono" }, line.values.step),
        h("span", { class: "muted" }, formatPlace(line.values)), h("span", { class: "spring" }),
        line.values.delay_s != null && h("span", { class: "muted" }, `restarted after ${formatDuration(line.values.delay_s)}`)),
      h("pre", { class: "bad" }, line.values.message), line.values.hint && h("p", { class: "muted" }, line.values.hint)))));
}

function drawRuns() {
  const runs = state.history.filter((run) => run.name === state.route.name);
  return runs.length > 0 && h("section", null, h("h2", null, "Runs that have ended"), h("div", { class: "panel scroll" }, h("table", { class: "rows" },
    h("thead", null, h("tr", null, ["status", "started", "ended", "rows in", "rows out", "checkpoints", "failures", ""].map((name) => h("th", { class: /rows|points|failures/.test(name) ? "n" : "" }, name)))),
    h("tbody", null, runs.map((run) => h("tr", { key: run.number },
      h("td", null, drawStatus(run)), h("td", null, formatClock(run.started_at)), h("td", null, formatClock(run.ended_at)),
      h("td", { class: "n" }, formatCount(run.rows_in)), h("td", { class: "n" }, formatCount(run.rows_out)), h("td", { class: "n" }, run.checkpoints || ""), h("td", { class: "n" }, run.failures || ""),
      h("td", { class: "reason muted", title: run.why }, run.why.split("\n", 1)[0])))))));
}
