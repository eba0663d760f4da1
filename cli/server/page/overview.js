// The first tab of a job: what holds it back, its graph, and the figures of its parts.

import { jobPath } from "./api.js";
import { h } from "./dom.js";
import { findHolder, meanShares } from "./figures.js";
import { formatAge, formatBytes, formatCount, formatDuration, formatRate, formatShare, formatWatermark } from "./format.js";
import { drawGraph } from "./graph.js";
import { drawPart } from "./part.js";
import { link, openJob, serverNow, state } from "./store.js";

export const overviewTab = {
  polls: ({ name, part }) => (openJob()?.pid == null ? listLastRun(name) : hasRejected(part)
    ? [{ path: jobPath(name, "rejected-rows"), every: 3, key: "rejected", take: (found) => { state.job.rejected = found.parts; } }] : []),
  draw: drawOverview,
};

function hasRejected(part) {
  const counts = state.job.statistics?.parts[part];
  return counts != null && counts.bad + counts.late > 0;
}

/** The figures with which a job that does not run has ended. */
function listLastRun(name) {
  const { job } = state, number = state.history.find((run) => run.name === name)?.number;
  const history = { path: "/v1/history", every: 10, key: "history", take: (found) => { state.history = found.runs; } };
  return number == null || job.lastRun?.number === number ? [history]
    : [history, { path: `/v1/history/${number}`, every: 10, key: "lastRun", take: (found) => { job.lastRun = found; } }];
}

function drawOverview() {
  const about = openJob(), { statistics } = state.job;
  if (about.pid == null) return drawStopped();
  if (!statistics || !state.job.graph) return h("p", { class: "muted empty" }, "Waiting for the first figures …");
  return [drawSummary(), drawFindings(), drawGraph(), drawChosen(), drawParts()];
}

function drawStopped() {
  const { job } = state;
  if (job.graph) return [h("p", { class: "muted lead" }, "The job is not running. These are its plan, and the rows of its last run. Its log says how it ended."), drawGraph(), drawChosen()];
  if (job.problems.graph) return h("div", { class: "panel empty muted" }, h("p", null, "The job is not running. Its log says how it ended."), h("pre", null, job.problems.graph.message));
  return h("p", { class: "muted empty" }, "Waiting for the graph …");
}

function drawSummary() {
  const about = openJob(), { statistics, samples, graph } = state.job;
  const sum = (kind, count) => {
    const rates = graph.parts.filter((part) => part.kind === kind).map((part) => samples.rate(part.name, count));
    return rates.includes(null) ? null : rates.reduce((a, b) => a + b, 0);
  };
  const newest = statistics.checkpoints?.newest;
  return h("dl", { class: "summary" },
    drawFigure("rows in", formatRate(sum("source", "rows_in")), formatCount(about.rows_in)),
    drawFigure("rows out", formatRate(sum("sink", "rows_out")), formatCount(about.rows_out)),
    drawFigure("lag", formatDuration(about.lag_s) || "–", "of the slowest watermark"),
    drawFigure("checkpoint", newest ? String(newest.number) : "–", newest ? `${formatAge(newest.triggered, serverNow())}, ${formatDuration(newest.seconds)}` : ""),
    drawFigure("state", formatBytes(statistics.state.bytes + statistics.state.bytes_on_disk), `${formatCount(statistics.state.rows)} rows`),
    drawFigure("failures", String(Math.max(0, about.attempt - 1)), about.last_failure ? formatAge(about.last_failure.time, serverNow()) : "in this run"));
}

function drawFigure(name, value, note) {
  return h("div", null, h("dt", null, name), h("dd", null, value), h("dd", { class: "muted" }, note));
}

// Findings

function drawFindings() {
  const { findings } = state.job;
  if (!findings) return null;
  if (!findings.findings.length) return h("p", { class: "healthy" }, h("i"), "Nothing holds the output back.");
  return h("section", { class: "findings", "aria-label": "What holds the output back" },
    findings.findings.map((each) => h("article", { key: `${each.cause} ${each.part}` },
      each.part ? h("a", { class: "part", href: link(state.route.name, "overview", each.part) }, each.part) : h("span", { class: "part" }, "job"),
      h("div", null,
        h("p", null, each.message, each.since && h("span", { class: "muted" }, `  for ${formatDuration(Math.max(0, Math.floor((serverNow() - Date.parse(each.since)) / 1000)))}`)),
        h("p", { class: "setting" }, drawCode(each.setting))))));
}

/** A text whose words between backticks are code. */
export function drawCode(text) {
  return text.split("`").map((piece, at) => (at % 2 ? h("code", null, piece) : piece));
}

// Parts

function drawChosen() {
  const { part } = state.route, { graph } = state.job;
  return part && graph.parts.some((each) => each.name === part) ? drawPart(part) : null;
}

const HEADS = ["", "rows in", "/s", "rows out", "/s", "busy · idle · backpressured", "watermark", "lag", "late", "bad", "state"];
const LEFT = new Set(["", "busy · idle · backpressured", "watermark"]);

function drawParts() {
  const { graph, statistics } = state.job;
  return h("div", { class: "panel scroll" }, h("table", { class: "rows parts" },
    h("thead", null, h("tr", null, HEADS.map((name) => h("th", { class: LEFT.has(name) ? "" : "n" }, name)))),
    h("tbody", null, graph.parts.filter((part) => statistics.parts[part.name]).map((part) => drawPartRow(part, statistics.parts[part.name])))));
}

function drawPartRow(part, counts) {
  const { samples, statistics } = state.job, { name, part: chosen } = state.route;
  const href = link(name, "overview", part.name);
  const sizes = statistics.subtasks.map((each) => each.states[part.name]).filter(Boolean).flatMap((each) => Object.values(each));
  const bytes = sizes.reduce((sum, size) => sum + size.bytes + size.bytes_on_disk, 0);
  return h("tr", { key: part.name, class: part.name === chosen ? "chosen" : "", onclick: () => { location.hash = href; } },
    h("td", { class: "name" }, h("a", { href, "data-row": true }, part.name), h("span", { class: "muted" }, ` ${part.kind}${counts.parallelism > 1 ? ` ×${counts.parallelism}` : ""}`)),
    h("td", { class: "n" }, formatCount(counts.rows_in)), h("td", { class: "n" }, formatRate(samples.rate(part.name, "rows_in"))),
    h("td", { class: "n" }, formatCount(counts.rows_out)), h("td", { class: "n" }, formatRate(samples.rate(part.name, "rows_out"))),
    h("td", null, drawShares(meanShares(part.name, statistics), true)),
    h("td", { class: "mono" }, formatWatermark(counts.watermark)), h("td", { class: "n" }, formatDuration(counts.lag_s)),
    h("td", { class: `n ${counts.late ? "bad" : ""}` }, formatCount(counts.late)), h("td", { class: `n ${counts.bad ? "bad" : ""}` }, counts.bad ? formatCount(counts.bad) : ""),
    h("td", { class: "n" }, sizes.length ? formatBytes(bytes) : ""));
}

/** Busy, idle and backpressured time as a bar, which is whole: they add up to 100 %. */
export function drawShares(shares, withText = false) {
  if (!shares) return null;
  const text = `busy ${formatShare(shares.busy)}, idle ${formatShare(shares.idle)}, backpressured ${formatShare(shares.backpressured)}`;
  const pieces = ["busy", "backpressured", "idle"].map((name) => h("i", { class: name, style: { width: `${shares[name] * 100}%` } }));
  return h("span", { class: "shares", title: text, role: "img", "aria-label": text }, h("span", { class: "bar3" }, pieces),
    withText && h("span", { class: "numbers" }, ["busy", "idle", "backpressured"].map((name) => h("b", null, Math.round(shares[name] * 100)))));
}

/** What holds a watermark back, in words. */
export function describeHolder(name) {
  const { graph, statistics } = state.job, holder = findHolder(name, graph, statistics);
  if (!holder) return null;
  return holder.watermark ? `split ${holder.split} of ${holder.source}, at ${formatWatermark(holder.watermark)}` : `split ${holder.split} of ${holder.source}, which has no time yet`;
}
