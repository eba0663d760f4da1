// The list of jobs, the pipelines of the folder that are none, and the runs that have ended.

import { role } from "./api.js";
import { h } from "./dom.js";
import { formatAge, formatClock, formatCount, formatDuration, formatRate, plural } from "./format.js";
import { link, redraw, serverNow, state } from "./store.js";
import { openSubmit, startFile } from "./submit.js";

const SHOWN_RUNS = 12;
const COLUMNS = ["job", "status", "up", "rows in", "rows out", "lag", "checkpoint", "last failure"];
const NUMBERS = new Set(["up", "rows in", "rows out", "lag"]);

/** The status of a job, and how it is coloured. */
export function statusKind(status) {
  if (status === "running") return "good";
  if (["failed", "killed", "damaged", "silent"].includes(status)) return "bad";
  if (["restarting", "waiting"].includes(status)) return "warn";
  return ["starting", "restoring", "rescaling", "stopping", "draining"].includes(status) ? "changing" : "calm";
}

export function drawStatus(job) {
  const waits = job.restarts_in_s != null ? `, starts in ${Math.ceil(job.restarts_in_s)} s` : "";
  return h("span", { class: `status ${statusKind(job.status)}` }, h("i"), job.upgrading ? "upgrading" : job.status, waits);
}

export function drawJobs() {
  if (!state.jobs) return h("p", { class: "muted empty" }, "Looking for jobs …");
  const jobs = state.jobs.filter((job) => matches(job.name, job.status));
  const files = state.files.filter((file) => matches(file.name, file.file));
  return [
    drawHead(),
    state.jobs.length ? drawTable(jobs) : drawWelcome(),
    files.length > 0 && drawFiles(files),
    state.history.length > 0 && drawHistory(),
  ];
}

function matches(...texts) {
  return texts.some((text) => text.toLowerCase().includes(state.filter.toLowerCase()));
}

function drawHead() {
  const running = state.jobs.filter((job) => job.status === "running").length;
  const bad = state.jobs.filter((job) => statusKind(job.status) === "bad" || statusKind(job.status) === "warn").length;
  return h("div", { class: "head" },
    h("h1", null, "Jobs"),
    h("span", { class: "muted" }, `${running} of ${formatCount(state.jobs.length)} running`,
      bad > 0 && h("span", { class: "bad" }, ` · ${plural(bad, "needs", "need")} attention`)),
    h("span", { class: "spring" }),
    h("input", { class: "filter", type: "search", placeholder: "Filter  /", "aria-label": "Filter jobs", value: state.filter,
      oninput: (event) => { state.filter = event.target.value; redraw(); } }),
    role === "owner" && h("button", { class: "primary", onclick: () => openSubmit() }, "Submit pipeline"));
}

function drawWelcome() {
  return h("div", { class: "panel empty" }, h("p", null, "No job has run here yet."),
    role === "owner" && h("p", { class: "muted" }, "Drop the file of a pipeline on this page, or choose one with Submit pipeline."));
}

function drawTable(jobs) {
  return h("table", { class: "jobs rows panel" },
    h("thead", null, h("tr", null, COLUMNS.map((name) => h("th", { class: NUMBERS.has(name) ? "n" : "" }, name)))),
    h("tbody", null, jobs.map(drawRow),
      jobs.length === 0 && h("tr", null, h("td", { class: "muted", colspan: COLUMNS.length }, "No job matches the filter."))));
}

function drawRow(job) {
  const isUp = job.pid != null && job.uptime_s != null;
  const open = () => { location.hash = link(job.name); };
  return h("tr", { key: job.name, class: "job", onclick: open },
    h("td", { class: "name" }, h("a", { href: link(job.name), "data-row": true }, job.name),
      job.changed && h("span", { class: "tag", title: "The file differs from the version that runs" }, "file changed"),
      job.served === false && h("span", { class: "tag", title: "Started by headrace run, not by this server" }, "plain run")),
    h("td", { "data-label": "status" }, drawStatus(job)),
    h("td", { class: "n", "data-label": "up" }, isUp ? formatDuration(Math.floor(job.uptime_s)) : ""),
    h("td", { class: "n", "data-label": "rows in" }, isUp ? formatRate(job.in_per_s) : ""),
    h("td", { class: "n", "data-label": "rows out" }, isUp ? formatRate(job.out_per_s) : ""),
    h("td", { class: "n", "data-label": "lag", title: "How far the clock is ahead of the slowest watermark" }, isUp ? formatDuration(job.lag_s) : ""),
    h("td", { "data-label": "checkpoint" }, job.checkpoint != null && [`${job.checkpoint} `, h("span", { class: "muted" }, formatAge(job.taken_at, serverNow()))]),
    h("td", { class: "reason", "data-label": "last failure" }, drawFailure(job)));
}

function drawFailure(job) {
  if (job.why) return h("span", { class: statusKind(job.status) === "calm" ? "muted" : "bad", title: job.why }, firstLine(job.why));
  const last = job.last_failure;
  return last && h("span", { class: "muted", title: last.message }, `${formatClock(last.time)}  ${firstLine(last.message)}`);
}

function firstLine(text) {
  return text.split("\n", 1)[0];
}

function drawFiles(files) {
  return h("section", null, h("h2", null, "New in the folder"),
    h("ul", { class: "panel list" }, files.map((file) => h("li", { key: file.file },
      h("div", { class: "line" }, h("b", null, file.name), h("span", { class: "muted path" }, file.file), h("span", { class: "spring" }),
        role === "owner" && file.is_valid && h("button", { onclick: () => startFile(file.file) }, "Start")),
      !file.is_valid && h("pre", { class: "mistakes" }, file.problems.map((each) => each.text).join("\n"))))));
}

function drawHistory() {
  return h("section", null, h("h2", null, "Runs that have ended"),
    h("table", { class: "rows panel history" },
      h("thead", null, h("tr", null, ["job", "status", "ended", "rows in", "rows out", "failures", ""].map((name) => h("th", { class: /rows|failures/.test(name) ? "n" : "" }, name)))),
      h("tbody", null, state.history.slice(0, SHOWN_RUNS).map((run) => h("tr", { key: run.number },
        h("td", { class: "name" }, h("a", { href: link(run.name, "log") }, run.name)),
        h("td", { "data-label": "status" }, drawStatus(run)),
        h("td", { "data-label": "ended" }, formatClock(run.ended_at)),
        h("td", { class: "n", "data-label": "rows in" }, formatCount(run.rows_in)),
        h("td", { class: "n", "data-label": "rows out" }, formatCount(run.rows_out)),
        h("td", { class: "n", "data-label": "failures" }, run.failures || ""),
        h("td", { class: "reason muted", title: run.why }, firstLine(run.why)))))));
}
