// The graph of a job. The server says in which layer and row each part is; this draws it, from left
// to right, or from top to bottom where the window is narrow.

import { h } from "./dom.js";
import { edgeRate, loadLevel, meanShares, subtasksOf } from "./figures.js";
import { formatDuration, formatRate, formatShort } from "./format.js";
import { drawShares } from "./overview.js";
import { link, state } from "./store.js";

const NARROW = 700;
const WIDE = { width: 180, height: 76, between: 98, apart: 18 };
const TALL = { width: 168, height: 76, between: 62, apart: 12 };
const MARGIN = 14;
/** The most subtasks of which each has a bar in a node; of more the mean is shown. */
const MOST_BARS = 8;
const LONGEST_LABEL = 17;
/** How far a feedback edge leads past the parts where it turns. */
const TURN = 56;
const EXCHANGES = { forward: "one to one", hash: "by key", rebalance: "in turn", broadcast: "to all" };

export function drawGraph() {
  const { graph, findings } = state.job, statistics = knownStatistics();
  const isTall = innerWidth < NARROW, size = isTall ? TALL : WIDE;
  const along = isTall ? size.height + size.between : size.width + size.between;
  const across = isTall ? size.width + size.apart : size.height + size.apart;
  const place = ([layer, row]) => (isTall
    ? { x: MARGIN + row * across, y: MARGIN + layer * along }
    : { x: MARGIN + layer * along, y: MARGIN + row * across });
  const width = isTall ? graph.rows * across : graph.layers * along - size.between;
  const height = isTall ? graph.layers * along - size.between : graph.rows * across;
  const turn = graph.edges.some((edge) => edge.feedback) ? TURN : 0;
  const total = { width: width + 2 * MARGIN + (isTall ? 0 : turn), height: height + 2 * MARGIN + (isTall ? turn : 0) };
  const held = new Set(findings?.findings.map((each) => each.part));
  return h("div", { class: "panel graph", role: "group", "aria-label": "Graph of the job" },
    h("div", { class: "canvas", style: { width: `${total.width}px`, height: `${total.height}px` } },
      h("svg", { width: total.width, height: total.height, "aria-hidden": "true" }, graph.edges.map((edge) => drawEdge(edge, place, size, isTall))),
      graph.parts.map((part) => drawNode(part, place([part.layer, part.row]), size, statistics, held.has(part.name)))),
    drawLegend(graph));
}

/** The figures of the job, or those with which its last run has ended. */
export function knownStatistics() {
  const { statistics, lastRun } = state.job;
  return statistics ?? { parts: lastRun?.figures?.parts ?? {}, subtasks: [] };
}

function drawNode(part, { x, y }, size, statistics, isHeld) {
  const { samples } = state.job, { name, part: chosen } = state.route;
  const counts = statistics.parts[part.name], subtasks = subtasksOf(part.name, statistics);
  const count = part.kind === "sink" ? "rows_in" : "rows_out";
  const trouble = [counts?.bad && `${formatShort(counts.bad)} bad`, counts?.late && `${formatShort(counts.late)} late`].filter(Boolean).join(", ");
  return h("a", {
    key: part.name, href: part.name === chosen ? link(name) : link(name, "overview", part.name), title: [part.kind, ...part.does].join("\n"),
    class: `node ${part.kind} ${loadLevel(subtasks)} ${part.name === chosen ? "chosen" : ""}`,
    style: { left: `${x}px`, top: `${y}px`, width: `${size.width}px`, height: `${size.height}px` },
  },
    h("span", { class: "top" }, h("b", null, part.name), isHeld && h("i", { class: "mark", title: "Named by a finding" }, "!"),
      counts?.parallelism > 1 && h("span", { class: "muted" }, `×${counts.parallelism}`)),
    subtasks.length > MOST_BARS ? drawShares(meanShares(part.name, statistics)) : h("span", { class: "bars" }, subtasks.map((each) => drawShares(each))),
    h("span", { class: "bottom" }, h("span", null, state.job.statistics ? formatRate(samples.rate(part.name, count)) : counts ? `${formatShort(counts[count])} rows` : ""),
      trouble ? h("span", { class: "bad" }, trouble)
        : counts?.lag_s != null ? h("span", { class: "muted", title: "How far the clock is ahead of the watermark" }, `lag ${formatDuration(counts.lag_s)}`)
          : h("span", { class: "muted" }, part.connector ?? "")));
}

function drawEdge(edge, place, size, isTall) {
  const { graph, samples } = state.job;
  const [start, end] = [edge.from, edge.to].map((name) => graph.parts.find((part) => part.name === name));
  const from = place([start.layer, start.row]), to = place([end.layer, end.row]);
  const half = isTall ? size.width / 2 : size.height / 2;
  const points = [
    isTall ? { x: from.x + half, y: from.y + size.height } : { x: from.x + size.width, y: from.y + half },
    ...edge.points.flatMap((point) => {
      const { x, y } = place(point);
      const ends = isTall ? [{ x: x + half, y }, { x: x + half, y: y + size.height }] : [{ x, y: y + half }, { x: x + size.width, y: y + half }];
      return edge.feedback ? ends.reverse() : ends;
    }),
    isTall ? { x: to.x + half, y: to.y } : { x: to.x, y: to.y + half },
  ];
  const rate = edgeRate(edge, graph, samples);
  const thickness = 1.2 + Math.min(2.6, Math.log10(1 + (rate ?? 0)) * 0.5);
  const label = edge.feedback ? points.slice(1, 3) : points.length === 2 ? points : points.slice(-2);
  const middle = { x: (label[0].x + label[1].x) / 2, y: (label[0].y + label[1].y) / 2 };
  return h("g", { key: `${edge.stream} ${edge.to} ${edge.side ?? 0}`, class: `edge ${edge.exchange} ${edge.feedback ? "feedback" : ""} ${edge.inside_task ? "inside" : ""} ${rate ? "" : "still"}` },
    h("title", null, describeEdge(edge)),
    h("path", { d: trace(points, isTall), "stroke-width": thickness.toFixed(2) }),
    h("text", { x: middle.x, y: middle.y - 5 }, state.job.statistics && `${edge.feedback ? "↩ " : ""}${formatRate(rate)}`),
    h("text", { class: "exchange", x: middle.x, y: middle.y + 13 }, shorten(describeKey(edge))));
}

function describeKey(edge) {
  const output = edge.stream.startsWith(`${edge.from}.`) ? edge.stream.slice(edge.from.length + 1) : "";
  if (edge.exchange === "hash") return edge.key.length ? `by ${edge.key.join(", ")}` : "to one";
  return output || (edge.stream === edge.from ? "" : edge.stream) || (edge.exchange === "forward" ? "" : EXCHANGES[edge.exchange]);
}

function describeEdge(edge) {
  const words = [`${edge.stream} → ${edge.to}`, edge.exchange === "hash" ? `hash by ${edge.key.join(", ") || "no key, all to one subtask"}` : edge.exchange];
  if (edge.feedback) words.push("back to the head of the loop");
  if (edge.inside_task) words.push("inside a task: a function call");
  if (edge.changes) words.push(edge.changes);
  return words.join("\n");
}

function shorten(text) {
  return text.length > LONGEST_LABEL ? `${text.slice(0, LONGEST_LABEL - 1)}…` : text;
}

/** The path through points. Where it does not get on to another layer it turns: a feedback edge at its ends. */
function trace([first, ...others], isTall) {
  let path = `M${first.x} ${first.y}`, last = first;
  const axis = isTall ? "y" : "x";
  others.forEach((point, at) => {
    const turn = last[axis] === point[axis] ? (at ? -TURN : TURN) : 0, middle = (last[axis] + point[axis]) / 2 + turn;
    if (at % 2) path += `L${point.x} ${point.y}`;
    else if (isTall) path += `C${last.x} ${middle} ${point.x} ${middle} ${point.x} ${point.y}`;
    else path += `C${middle} ${last.y} ${middle} ${point.y} ${point.x} ${point.y}`;
    last = point;
  });
  return path;
}

function drawLegend(graph) {
  const kinds = [...new Set(graph.edges.map((edge) => edge.exchange))];
  return h("div", { class: "legend" },
    state.job.statistics && [["busy", "busy"], ["hot", "busy most of the time"], ["backpressured", "backpressured"], ["idle", "idle"]].map(([kind, text]) => h("span", null, h("i", { class: kind }), text)),
    kinds.map((kind) => drawLegendEdge(kind, `${kind}: ${EXCHANGES[kind]}`)),
    graph.edges.some((edge) => edge.feedback) && drawLegendEdge("feedback", "back to the head of the loop"));
}

function drawLegendEdge(kind, text) {
  return h("span", null, h("svg", { width: "26", height: "8", "aria-hidden": "true" }, h("g", { class: `edge ${kind}` }, h("path", { d: "M1 4H25", "stroke-width": "1.6" }))), text);
}
