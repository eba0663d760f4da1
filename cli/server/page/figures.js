// Figures that follow from what a job reports: rates, and what holds a watermark back.

const KEPT = 30;
const SPAN_MS = 5000;

/** The last samples of a job's counts, for rates over the last seconds. */
export class Samples {
  constructor() {
    this.list = [];
  }

  add({ time, attempt, parts }) {
    const at = Date.parse(time), last = this.list.at(-1);
    if (last && at <= last.at) return;
    const isReset = last && (last.attempt !== attempt || Object.keys(parts).some((name) => parts[name].rows_in < (last.parts[name]?.rows_in ?? 0)));
    if (isReset) this.list = [];
    const counts = {};
    for (const name in parts) counts[name] = { rows_in: parts[name].rows_in, rows_out: parts[name].rows_out };
    this.list = [...this.list.slice(1 - KEPT), { at, attempt, parts: counts }];
  }

  /** Rows per second of a part; null before there are two samples. */
  rate(name, count) {
    const last = this.list.at(-1);
    const first = this.list.findLast((each) => each.at <= last.at - SPAN_MS) ?? this.list[0];
    if (!last || first === last || !first.parts[name] || !last.parts[name]) return null;
    return (last.parts[name][count] - first.parts[name][count]) / ((last.at - first.at) / 1000);
  }
}

/** The rows per second on an edge: its reader's if that reads nothing else, else its writer's. */
export function edgeRate(edge, graph, samples) {
  const inputs = graph.edges.filter((each) => each.to === edge.to);
  if (inputs.length === 1) return samples.rate(edge.to, "rows_in");
  const writer = graph.parts.find((part) => part.name === edge.from);
  if (writer.outputs.length === 1) return samples.rate(edge.from, "rows_out");
  const others = inputs.filter((each) => each !== edge).map((each) => soleOutputRate(each, graph, samples));
  const all = samples.rate(edge.to, "rows_in");
  return all == null || others.includes(null) ? null : Math.max(0, all - others.reduce((a, b) => a + b, 0));
}

function soleOutputRate(edge, graph, samples) {
  const writer = graph.parts.find((part) => part.name === edge.from);
  return writer.outputs.length === 1 ? samples.rate(edge.from, "rows_out") : null;
}

/** The mean shares of time of a part's subtasks; null without subtasks. */
export function meanShares(name, statistics) {
  const subtasks = subtasksOf(name, statistics);
  if (!subtasks.length) return null;
  const mean = (share) => subtasks.reduce((sum, each) => sum + each[share], 0) / subtasks.length;
  return { busy: mean("busy"), idle: mean("idle"), backpressured: mean("backpressured") };
}

export function subtasksOf(name, statistics) {
  return (statistics?.subtasks ?? []).filter((each) => name in each.parts);
}

/** The colour of a part: that of its subtask which is loaded most. */
export function loadLevel(subtasks) {
  const most = (share) => Math.max(0, ...subtasks.map((each) => each[share]));
  if (most("backpressured") >= 0.5) return "backpressured";
  if (most("busy") >= 0.8) return "hot";
  return most("busy") >= 0.02 ? "busy" : "idle";
}

/** The names of a part and of all that it reads, directly or not. */
export function upstreamOf(name, graph) {
  const found = new Set([name]);
  for (const edge of [...graph.edges].reverse()) if (found.has(edge.to)) found.add(edge.from);
  return found;
}

/** The split whose time holds the watermark of a part back: the slowest that is neither idle nor at its end. */
export function findHolder(name, graph, statistics) {
  const sources = upstreamOf(name, graph);
  let slowest = null;
  for (const subtask of statistics.subtasks) {
    const source = Object.keys(subtask.parts).find((part) => sources.has(part));
    if (!source || !subtask.splits) continue;
    for (const split of subtask.splits.splits) {
      if (split.idle || split.ended) continue;
      const time = split.watermark ?? "";
      if (!slowest || time < slowest.watermark) slowest = { source, split: split.split, watermark: time };
    }
  }
  return slowest;
}

/** The most rows that one subtask of a part got, as a multiple of an even share; null for one subtask. */
export function skewOf(name, statistics) {
  const rows = subtasksOf(name, statistics).map((each) => each.parts[name].rows_in);
  const total = rows.reduce((a, b) => a + b, 0);
  return rows.length < 2 || !total ? null : (Math.max(...rows) * rows.length) / total;
}
