// One job: its head, its tabs, and the tab that is open.

import { role } from "./api.js";
import { drawActions } from "./actions.js";
import { drawError } from "./dialog.js";
import { h } from "./dom.js";
import { formatDuration } from "./format.js";
import { drawStatus } from "./jobs.js";
import { drawOverview } from "./overview.js";
import { link, state } from "./store.js";

/** The tabs of a job: their titles, and what draws them. */
export const TABS = {
  overview: ["Overview", drawOverview],
};

export function drawJob() {
  const { name, tab } = state.route, { about, problems } = state.job;
  if (!about) return problems.about ? drawError(problems.about) : h("p", { class: "muted empty" }, `Looking for ${name} …`);
  const [, draw] = TABS[tab] ?? TABS.overview;
  return [
    h("div", { class: "head" },
      h("h1", { class: "mono" }, name), drawStatus(about),
      about.pid != null && h("span", { class: "muted" }, `up ${formatDuration(Math.floor(about.uptime_s ?? 0))}`),
      about.attempt > 1 && h("span", { class: "muted" }, `attempt ${about.attempt}`),
      h("span", { class: "spring" }),
      role === "owner" && drawActions(about)),
    h("nav", { class: "tabs" }, Object.entries(TABS).map(([key, [title]], at) => h("a", {
      href: link(name, key), "aria-current": key === tab ? "page" : null, title: `${title} (${at + 1})`,
    }, title))),
    drawWhy(about),
    draw(),
  ];
}

function drawWhy(about) {
  return about.why && h("div", { class: "problem", role: "alert" }, h("pre", null, about.why));
}
