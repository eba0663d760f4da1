// Charts over time: lines, and bars of one value each. The pointer shows the values of a moment.

import { h } from "./dom.js";
import { formatClock } from "./format.js";
import { redraw } from "./store.js";

const WIDTH = 600;
const TOP = 14;

/** The moment under the pointer, shared by the charts of a view; null outside of them. */
export const pointer = { at: null };

/** A chart of series: [{ name, kind, values }], whose values are null where they are not known. */
export function drawLines({ title, note, times, series, format, height = 92, most = 0 }) {
  const values = series.flatMap((each) => each.values).filter((value) => value != null);
  const top = niceTop(Math.max(most, ...values, 0));
  const first = times[0], span = Math.max(1, times.at(-1) - first);
  const x = (at) => ((times[at] - first) / span) * WIDTH;
  const y = (value) => TOP + (height - TOP) * (1 - Math.max(0, value) / top);
  const at = pointer.at == null ? times.length - 1 : nearest(times, first + pointer.at * span);
  return h("figure", { class: "chart panel" },
    h("figcaption", null, h("b", null, title), h("span", { class: "muted" }, note),
      h("span", { class: "spring" }),
      pointer.at != null && h("span", { class: "muted" }, formatClock(times[at] * 1000)),
      series.map((each) => h("span", { class: `key ${each.kind}` }, h("i"), each.name && `${each.name} `, h("b", null, format(each.values[at]))))),
    h("div", { class: "plot", ...pointerEvents() },
      h("svg", { viewBox: `0 0 ${WIDTH} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": title },
        h("line", { class: "axis", x1: 0, x2: WIDTH, y1: y(top / 2), y2: y(top / 2) }),
        h("line", { class: "axis", x1: 0, x2: WIDTH, y1: height, y2: height }),
        series.map((each) => h("path", { class: `curve ${each.kind}`, d: trace(each.values, x, y, times) })),
        pointer.at != null && h("line", { class: "cursor", x1: x(at), x2: x(at), y1: 0, y2: height })),
      h("span", { class: "top muted" }, format(top))));
}

/** A bar for each value, the oldest on the left; a bar may be marked as bad. */
export function drawBars({ title, bars, format, height = 64 }) {
  const top = niceTop(Math.max(...bars.map((each) => each.value ?? 0), 0));
  const last = bars.findLast((each) => each.value != null);
  const step = WIDTH / Math.max(bars.length, 20), size = (value) => Math.max(1, ((height - TOP) * (value ?? 0)) / top);
  return h("figure", { class: "chart panel" },
    h("figcaption", null, h("b", null, title), h("span", { class: "spring" }), last && h("span", null, format(last.value))),
    h("div", { class: "plot" }, h("svg", { viewBox: `0 0 ${WIDTH} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": title },
      h("line", { class: "axis", x1: 0, x2: WIDTH, y1: height, y2: height }),
      bars.map((bar, at) => h("rect", { key: bar.key, class: bar.isBad ? "failed" : "", x: at * step, width: step * 0.8, y: height - size(bar.value), height: size(bar.value) },
        h("title", null, `${bar.key}: ${bar.value == null ? "failed" : format(bar.value)}`)))),
    h("span", { class: "top muted" }, format(top))));
}

function pointerEvents() {
  const move = (event) => {
    const box = event.currentTarget.getBoundingClientRect();
    pointer.at = Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
    redraw();
  };
  return { onpointermove: move, onpointerdown: move, onpointerleave: () => { pointer.at = null; redraw(); } };
}

function trace(values, x, y, times) {
  let path = "", isDrawn = false;
  values.forEach((value, at) => {
    const isGap = value == null || (at > 0 && times[at] - times[at - 1] > 30);
    if (value == null) isDrawn = false;
    else {
      path += `${isDrawn && !isGap ? "L" : "M"}${x(at).toFixed(1)} ${y(value).toFixed(1)}`;
      isDrawn = true;
    }
  });
  return path;
}

function nearest(times, time) {
  let best = 0;
  times.forEach((each, at) => { if (Math.abs(each - time) < Math.abs(times[best] - time)) best = at; });
  return best;
}

/** The next number of 1, 2 and 5 times a power of ten. */
function niceTop(value) {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].find((factor) => factor * power >= value) * power;
}
