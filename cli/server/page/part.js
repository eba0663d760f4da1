// One part of a job: what it does, its subtasks, what holds its watermark back, and its splits.

import { h } from "./dom.js";
import { skewOf, subtasksOf } from "./figures.js";
import { knownStatistics } from "./graph.js";
import { formatBytes, formatClock, formatCount, formatDuration, formatLag, formatPlace, formatWatermark } from "./format.js";
import { describeHolder, drawShares } from "./overview.js";
import { link, state } from "./store.js";

const SKEWED = 2;

export function drawPart(name) {
  const { graph } = state.job, statistics = knownStatistics(), part = graph.parts.find((each) => each.name === name);
  const counts = statistics.parts[name];
  return h("section", { class: "panel part-panel", key: "part", "aria-label": name },
    h("div", { class: "title" }, h("h2", { class: "mono" }, name), h("span", { class: "muted" }, [part.kind, part.connector, part.format].filter(Boolean).join(" · ")),
      h("span", { class: "spring" }),
      part.outputs?.map((stream) => h("a", { key: stream.stream, class: "button", href: link(state.route.name, "rows", stream.stream) }, part.outputs.length > 1 ? `Rows of ${stream.stream}` : "Rows")),
      h("a", { class: "quiet", href: link(state.route.name), "aria-label": "Close" }, "×")),
    h("div", { class: "columns" },
      h("div", null,
        h("h3", null, "does"), h("ul", { class: "plain mono" }, part.does.map((line) => h("li", null, line))),
        drawWatermark(name, counts), drawTrouble(name, counts), drawLookup(counts), drawMetrics(counts)),
      part.outputs && h("div", null, part.outputs.map((stream) => [
        h("h3", null, "columns", part.outputs.length > 1 && ` of ${stream.stream}`, stream.kind !== "append" && ` · ${stream.kind}`),
        h("ul", { class: "plain mono types" }, stream.columns.map((column) => h("li", null, column.name, " ", h("span", { class: "muted" }, column.type)))),
      ]))),
    drawSubtasks(name), drawSplits(name));
}

function drawWatermark(name, counts) {
  if (!counts?.watermark) return null;
  const holder = counts.watermark === "end" || !state.job.statistics ? null : describeHolder(name);
  return [h("h3", null, "watermark"), h("p", null, h("span", { class: "mono" }, formatWatermark(counts.watermark)),
    counts.lag_s != null && ` · ${formatLag(counts.lag_s)}`),
  holder && h("p", { class: "muted" }, `held by ${holder}`)];
}

function drawTrouble(name, counts) {
  const known = state.job.statistics && state.job.rejected, rows = known?.[name] ?? [];
  const found = [["bad", counts?.bad], ["late", counts?.late], ["in windows that are not full", counts?.unfilled]].filter(([, rows]) => rows);
  return found.length > 0 && [h("h3", null, "rows in no result"), h("p", null, found.map(([kind, count]) => `${formatCount(count)} ${kind}`).join(", ")),
    known && !rows.length && h("p", { class: "muted" }, "They came before the job was started last, so there is no sample of them."),
    rows.length > 0 && h("ul", { class: "plain rejected" }, rows.map((row) => h("li", { key: `${row.time} ${row.text}` },
      h("div", { class: "muted" }, h("time", { title: row.time }, formatClock(row.time)), ` ${row.kind}`, describeOrigin(row)),
      row.error && h("div", { class: "bad" }, row.error),
      h("pre", null, row.text, row.length > row.text.length && h("span", { class: "muted" }, ` … of ${formatCount(row.length)} characters`)))))];
}

/** Where a bad record was read, or how far time was when a late row came. */
function describeOrigin(row) {
  if (row.watermark != null) return `, the watermark was at ${formatWatermark(row.watermark)}`;
  return row.split == null ? "" : `, ${formatPlace(row)}`;
}

function drawLookup(counts) {
  return counts?.lookup && [h("h3", null, "lookup"), h("p", null, Object.entries(counts.lookup).map(([key, value]) => `${formatCount(value)} ${key}`).join(", "))];
}

function drawMetrics(counts) {
  const metrics = Object.entries(counts?.metrics ?? {});
  return metrics.length > 0 && [h("h3", null, "metrics"), h("ul", { class: "plain mono" }, metrics.map(([key, value]) => h("li", null, `${key} ${typeof value === "object" ? JSON.stringify(value) : formatCount(value)}`)))];
}

function drawSubtasks(name) {
  const subtasks = subtasksOf(name, knownStatistics()), skew = skewOf(name, knownStatistics());
  const most = Math.max(1, ...subtasks.map((each) => each.parts[name].rows_in));
  if (!subtasks.length) return null;
  const workers = new Set(subtasks.map((each) => each.worker)).size > 1;
  return h("div", { class: "scroll" }, h("table", { class: "rows" },
    h("thead", null, h("tr", null, ["subtask", workers && "worker", "rows in", "", "busy · idle · backpressured", "watermark", "lag", "queue", "state"].filter((head) => head !== false)
      .map((head) => h("th", { class: /rows|lag|queue|state/.test(head) ? "n" : "" }, head, head === "rows in" && skew >= SKEWED && h("span", { class: "bad" }, ` skewed ×${skew.toFixed(1)}`))))),
    h("tbody", null, subtasks.map((each) => h("tr", { key: each.subtask },
      h("td", null, each.subtask, each.ended && h("span", { class: "muted" }, " ended")), workers && h("td", null, each.worker ?? ""),
      h("td", { class: "n" }, formatCount(each.parts[name].rows_in)),
      h("td", { class: "meter" }, h("i", { style: { width: `${(each.parts[name].rows_in / most) * 100}%` } })),
      h("td", null, drawShares(each, true)),
      h("td", { class: "mono" }, formatWatermark(each.watermark)), h("td", { class: "n" }, formatDuration(each.lag_s)),
      h("td", { class: "n" }, each.queue ? `${formatCount(each.queue.rows)} rows` : ""),
      h("td", { class: "n" }, each.states[name] ? formatBytes(Object.values(each.states[name]).reduce((sum, size) => sum + size.bytes + size.bytes_on_disk, 0)) : ""))))));
}

function drawSplits(name) {
  const subtasks = subtasksOf(name, knownStatistics()).filter((each) => each.splits && Object.keys(each.parts)[0] === name);
  const splits = subtasks.flatMap((each) => each.splits.splits.map((split) => ({ ...split, subtask: each.subtask })));
  const count = subtasks.reduce((sum, each) => sum + each.splits.count, 0);
  return splits.length > 0 && h("details", { open: splits.length <= 12 },
    h("summary", null, `Splits: ${formatCount(count)}`, count > splits.length && h("span", { class: "muted" }, `, ${splits.length} shown`)),
    h("div", { class: "scroll" }, h("table", { class: "rows" },
      h("thead", null, h("tr", null, ["split", "subtask", "position", "behind", "watermark", ""].map((head) => h("th", { class: /position|behind/.test(head) ? "n" : "" }, head)))),
      h("tbody", null, splits.map((split) => h("tr", { key: `${split.subtask} ${split.split}` },
        h("td", { class: "mono" }, split.split), h("td", null, split.subtask), h("td", { class: "n mono" }, typeof split.position === "object" ? JSON.stringify(split.position) : String(split.position ?? "")),
        h("td", { class: "n" }, formatCount(split.behind)), h("td", { class: "mono" }, formatWatermark(split.watermark)),
        h("td", { class: "muted" }, split.ended ? "read to the end" : split.idle ? "idle" : "")))))));
}
