// The frame of the page: its bar, the view that the URL names, and keys.

import { adoptToken, hasToken, role, setToken } from "./api.js";
import { drawDialog, openKeys } from "./dialog.js";
import { h, render } from "./dom.js";
import { LATE_MS } from "./events.js";
import { drawJob, TABS } from "./job.js";
import { drawJobs } from "./jobs.js";
import { link, onDraw, openRoute, redraw, refresh, setTabPolls, state } from "./store.js";
import { acceptDrops, openSubmit } from "./submit.js";

function draw() {
  const { name } = state.route;
  document.title = name ? `${name} · headrace` : "headrace";
  const isDenied = !hasToken() || state.problem?.status === 401;
  render(document.getElementById("page"),
    drawBar(name),
    h("main", { id: "view", tabindex: "-1" }, isDenied ? drawLogin() : name ? drawJob() : drawJobs()),
    state.notice && h("div", { class: `notice ${state.notice.kind ?? ""}`, role: "status" }, state.notice.text),
    drawDialog());
}

function drawBar(name) {
  return h("header", { class: "bar" },
    h("a", { class: "brand", href: "#/" }, drawMark(), "headrace"),
    name && h("span", { class: "crumb" }, h("span", { class: "slash" }, "/"), name),
    h("span", { class: "spring" }),
    role === "viewer" && h("span", { class: "badge", title: "This token may look, and change nothing" }, "read only"),
    drawConnection(),
    h("button", { class: "quiet", onclick: openKeys, title: "Keys (?)", "aria-label": "Keys" }, "?"));
}

function drawMark() {
  return h("svg", { viewBox: "0 0 24 16", width: "24", height: "16", "aria-hidden": "true" },
    h("path", { d: "M1 5c3.6 0 3.6 3.6 7.2 3.6S11.800 5 15.400 5s3.600 3.600 7.200 3.600M1 11c3.600 0 3.600 3.600 7.200 3.600S11.800 11 15.400 11s3.600 3.600 7.200 3.600" }));
}

function drawConnection() {
  const isLost = state.problem?.status === 0 || (state.answeredAt && Date.now() - state.answeredAt > LATE_MS);
  const text = isLost ? "no answer" : state.answeredAt ? "live" : "connecting";
  return h("span", { class: `connection ${isLost ? "lost" : ""}`, title: state.problem?.message ?? "" }, h("i"), text);
}

function drawLogin() {
  function enter(event) {
    event.preventDefault();
    setToken(event.target.elements.token.value.trim().replace(/^.*#token=/, ""));
    state.problem = null;
    refresh();
    redraw();
  }
  return h("form", { class: "login panel", onsubmit: enter },
    h("h1", null, "A token is needed"),
    h("p", null, "headrace serve prints a URL that has it. It is also in the file ",
      h("code", null, ".headrace/serve.token"), " of the server's folder."),
    h("label", null, "Token or URL", h("input", { name: "token", type: "password", autocomplete: "off", onmount: (node) => node.focus() })),
    hasToken() && h("p", { class: "bad" }, "The server does not accept the token that this page has."),
    h("button", { class: "primary" }, "Open"));
}

function isTyping(event) {
  return event.target.closest("input, textarea, select, dialog");
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event) || state.dialog) return;
  const { name } = state.route, tab = Object.keys(TABS)[Number(event.key) - 1];
  if (event.key === "?") openKeys();
  else if (event.key === "Escape" && name) location.hash = state.route.part ? link(name, state.route.tab) : "#/";
  else if (event.key === "/") document.querySelector("input.filter")?.focus();
  else if (event.key === "n" && role === "owner") openSubmit();
  else if (name && tab) location.hash = link(name, tab);
  else if (event.key === "j" || event.key === "k") moveFocus(event.key === "j" ? 1 : -1);
  else return;
  event.preventDefault();
}

function moveFocus(step) {
  const rows = [...document.querySelectorAll("[data-row]")];
  const at = rows.indexOf(document.activeElement);
  rows[at < 0 ? 0 : Math.max(0, Math.min(rows.length - 1, at + step))]?.focus();
}

adoptToken();
setTabPolls((route) => TABS[route.tab]?.polls?.(route) ?? []);
onDraw(draw);
addEventListener("hashchange", () => { adoptToken(); openRoute(); });
addEventListener("keydown", onKey);
addEventListener("resize", redraw);
document.addEventListener("visibilitychange", refresh);
setInterval(redraw, 1000);
acceptDrops();
openRoute();
