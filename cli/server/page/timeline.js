// The last hour of a job, as the server has sampled it.

import { jobPath } from "./api.js";
import { drawLines } from "./chart.js";
import { h } from "./dom.js";
import { formatBytes, formatDuration, formatRate, formatShare } from "./format.js";
import { state } from "./store.js";

export const timelineTab = {
  polls: ({ name }) => [{ path: jobPath(name, "timeline"), every: 5, key: "timeline", take: (found) => { state.job.tabs.timeline = found; } }],
  draw,
};

function draw() {
  const found = state.job.tabs.timeline;
  if (!found) return h("p", { class: "muted empty" }, "Waiting for the samples …");
  if (found.time.length < 2) return h("div", { class: "panel empty muted" }, `The server looks at a job every ${found.interval_s} s. The first line needs two looks.`);
  const chart = (title, format, series, more = {}) => drawLines({
    title, format: (value) => (value == null ? "–" : format(value)), times: found.time,
    series: series.map(([key, name, kind]) => ({ name, kind, values: found[key] })), ...more,
  });
  const has = (key) => found[key]?.some((value) => value != null);
  const minutes = Math.round((found.time.at(-1) - found.time[0]) / 60);
  return [
    h("p", { class: "muted lead" }, `The last ${minutes < 1 ? "minute" : minutes >= 59 ? "hour" : `${minutes} min`}, every ${found.interval_s} s.`),
    h("div", { class: "charts" },
      chart("rows", formatRate, [["in_per_s", "in", "a"], ["out_per_s", "out", "b"]]),
      has("latency_p50_s") && chart("latency", formatDuration, [["latency_p50_s", "p50", "a"], ["latency_p99_s", "p99", "c"]]),
      chart("load of the subtask with the most", formatShare, [["busy", "busy", "busy"], ["backpressured", "backpressured", "backpressured"]], { most: 1 }),
      chart("lag of the slowest watermark", formatDuration, [["lag_s", "", "a"]]),
      chart("processors", (value) => value.toFixed(2), [["cpu", "", "a"]], { note: "cores in use" }),
      chart("memory", formatBytes, [["rss_bytes", "resident", "a"], ["state_bytes", "state", "b"]]),
      has("bad") && Math.max(...found.bad) + Math.max(...found.late) > 0 && chart("rows in no result", (value) => String(value), [["bad", "bad", "c"], ["late", "late", "backpressured"]])),
  ];
}
