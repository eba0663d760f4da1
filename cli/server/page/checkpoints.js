// The checkpoints of a job's run: a chart of each of their figures, and a list.

import { jobPath, role } from "./api.js";
import { openSavepoint } from "./actions.js";
import { drawBars } from "./chart.js";
import { h } from "./dom.js";
import { formatAge, formatBytes, formatCount, formatDuration } from "./format.js";
import { openJob, serverNow, state } from "./store.js";

const HEADS = ["checkpoint", "begun", "took", "of it aligned", "stood still", "written", "whole size", ""];

export const checkpointsTab = {
  polls: ({ name }) => [{ path: jobPath(name, "checkpoints"), every: 2, key: "checkpoints", take: (found) => { state.job.checkpoints = found; } }],
  draw,
};

function draw() {
  const about = openJob(), { checkpoints: found } = state.job;
  if (about.pid == null) return h("div", { class: "panel empty muted" }, "The job is not running. Its newest checkpoint is ", String(about.checkpoint ?? "none"), ".");
  if (!found) return h("p", { class: "muted empty" }, "Waiting for the checkpoints …");
  const oldestFirst = [...found.history].reverse();
  const bars = (value) => oldestFirst.map((each) => ({ key: each.number, value: value(each), isBad: each.status === "failed" }));
  return [
    h("div", { class: "head" }, h("span", null, `${formatCount(found.completed)} completed`), found.failed > 0 && h("span", { class: "bad" }, `${formatCount(found.failed)} failed`),
      h("span", { class: "muted" }, "in this run"), h("span", { class: "spring" }),
      role === "owner" && h("button", { class: "primary", onclick: () => openSavepoint(about) }, "Take savepoint")),
    found.history.length > 0 ? [
      h("div", { class: "charts four" },
        drawBars({ title: "duration", bars: bars((each) => each.seconds), format: formatDuration }),
        drawBars({ title: "alignment", bars: bars((each) => each.aligned_s), format: formatDuration }),
        drawBars({ title: "increment", bars: bars((each) => each.bytes_new), format: formatBytes }),
        drawBars({ title: "whole size", bars: bars((each) => each.bytes), format: formatBytes })),
      drawList(found.history),
    ] : h("div", { class: "panel empty muted" }, "No checkpoint has been taken in this run."),
  ];
}

function drawList(history) {
  return h("div", { class: "panel scroll" }, h("table", { class: "rows" },
    h("thead", null, h("tr", null, HEADS.map((name, at) => h("th", { class: at > 1 && at < 7 ? "n" : "" }, name)))),
    h("tbody", null, history.map((each) => h("tr", { key: each.number },
      h("td", null, h("b", null, each.number), each.status === "failed" && h("span", { class: "bad" }, " failed")),
      h("td", { title: each.triggered }, formatAge(each.triggered, serverNow())),
      h("td", { class: "n" }, formatDuration(each.seconds)), h("td", { class: "n" }, formatDuration(each.aligned_s)), h("td", { class: "n" }, formatDuration(each.stood_still_s)),
      h("td", { class: "n" }, formatBytes(each.bytes_new)), h("td", { class: "n" }, formatBytes(each.bytes)),
      h("td", { class: "bad" }, each.why ?? ""))))));
}
