// One job: its head, its tabs, and the tab that is open.

import { role } from "./api.js";
import { drawActions } from "./actions.js";
import { h } from "./dom.js";
import { formatDuration } from "./format.js";
import { drawStatus } from "./jobs.js";
import { checkpointsTab } from "./checkpoints.js";
import { logTab } from "./log.js";
import { overviewTab } from "./overview.js";
import { pipelineTab } from "./pipeline.js";
import { rowsTab } from "./rows.js";
import { stateTab } from "./state.js";
import { link, openJob, state } from "./store.js";
import { timelineTab } from "./timeline.js";

/** The tabs of a job: what draws them, and what they fetch beside the stream of figures. */
export const TABS = {
  overview: { title: "Overview", ...overviewTab },
  checkpoints: { title: "Checkpoints", ...checkpointsTab },
  timeline: { title: "Timeline", ...timelineTab },
  rows: { title: "Rows", ...rowsTab },
  state: { title: "State", ...stateTab },
  log: { title: "Log", ...logTab },
  pipeline: { title: "Pipeline", ...pipelineTab },
};

export function drawJob() {
  const { name, tab } = state.route, about = openJob();
  if (!state.jobs) return h("p", { class: "muted empty" }, `Looking for ${name} …`);
  if (!about) return h("div", { class: "panel empty muted" }, `There is no job ${name}. `, h("a", { href: "#/" }, "All jobs"));
  const open = TABS[tab] ?? TABS.overview;
  return [
    h("div", { class: "head" },
      h("h1", { class: "mono" }, name), drawStatus(about),
      about.uptime_s != null && h("span", { class: "muted" }, `up ${formatDuration(Math.floor(about.uptime_s))}`),
      about.attempt > 1 && h("span", { class: "muted" }, `attempt ${about.attempt}`),
      h("span", { class: "spring" }),
      role === "owner" && drawActions(about)),
    h("nav", { class: "tabs" }, Object.entries(TABS).map(([key, { title }], at) => h("a", {
      href: link(name, key), "aria-current": TABS[key] === open ? "page" : null, title: `${title} (${at + 1})`,
    }, title))),
    drawWhy(about),
    h("div", { key: open.title }, open.draw()),
  ];
}

function drawWhy(about) {
  return about.why && h("div", { class: "problem", role: "alert" }, h("pre", null, about.why));
}
