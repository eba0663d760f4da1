// One dialog at a time, and short notices.

import { h } from "./dom.js";
import { redraw, state } from "./store.js";

const NOTICE_MS = 6000;

/** Open a dialog: `draw` returns its content, given a function that closes it. */
export function openDialog(title, draw) {
  state.dialog = { title, draw };
  redraw();
}

export function closeDialog() {
  state.dialog = null;
  redraw();
}

export function notify(text, kind = "") {
  const notice = (state.notice = { text, kind });
  setTimeout(() => { if (state.notice === notice) { state.notice = null; redraw(); } }, NOTICE_MS);
  redraw();
}

export function drawDialog() {
  if (!state.dialog) return null;
  const { title, draw } = state.dialog;
  return h("dialog", { key: "dialog", onclose: closeDialog, onmount: (node) => node.showModal(), "aria-label": title },
    h("div", { class: "title" }, h("h2", null, title),
      h("button", { class: "quiet", onclick: closeDialog, "aria-label": "Close" }, "×")),
    draw(closeDialog));
}

/** The message of a failed request, with its hint. */
export function drawError(error) {
  if (!error) return null;
  const isText = error.message.includes("\n");
  return h("div", { class: "problem", role: "alert" },
    h(isText ? "pre" : "p", null, error.message), error.hint && h("p", { class: "muted" }, error.hint));
}

const KEYS = [
  ["/", "filter"], ["j  k", "next or previous row"], ["Enter", "open it"], ["1 … 7", "tabs of a job"],
  ["Esc", "back"], ["n", "submit a pipeline"], ["?", "these keys"],
];

export function openKeys() {
  openDialog("Keys", () => h("dl", { class: "keys" }, KEYS.map(([key, effect]) => [h("dt", null, h("kbd", null, key)), h("dd", null, effect)])));
}
