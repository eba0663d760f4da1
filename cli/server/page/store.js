// The state of the page, the view that the URL names, and what is fetched for it.

import { ApiError, getJson, jobPath } from "./api.js";
import { Samples } from "./figures.js";

export const state = {
  /** The view: { name, tab, part } of a job, or {} for the list. */
  route: {},
  jobs: null,
  files: [],
  history: [],
  /** The open job's figures; emptied when another job is opened. */
  job: emptyJob(),
  /** Why the last request failed; null if it did not. */
  problem: null,
  /** The difference between the server's clock and this one's, in milliseconds. */
  clockOffset: 0,
  answeredAt: 0,
  filter: "",
  dialog: null,
  notice: null,
};

function emptyJob() {
  return {
    about: null, graph: null, statistics: null, findings: null, checkpoints: null, problems: {},
    samples: new Samples(), tabs: {},
  };
}

let draw = () => {};
let isDrawing = false;

/** Draw the page again, once for all changes of this moment. */
export function redraw() {
  if (isDrawing) return;
  isDrawing = true;
  requestAnimationFrame(() => { isDrawing = false; draw(); });
}

export function onDraw(callback) {
  draw = callback;
}

/** The time on the server's clock. */
export function serverNow() {
  return Date.now() + state.clockOffset;
}

export function parseRoute(hash) {
  const [kind, name, tab, part] = hash.replace(/^#\/?/, "").split("/").map(decode);
  return kind === "job" && name ? { name, tab: tab || "overview", part: part || null } : {};
}

function decode(word) {
  try { return decodeURIComponent(word); } catch { return word; }
}

export function link(name, tab, part) {
  const words = ["job", name, ...(part ? [tab ?? "overview", part] : tab ? [tab] : [])];
  return `#/${words.map(encodeURIComponent).join("/")}`;
}

export function openRoute() {
  const before = state.route.name;
  state.route = parseRoute(location.hash);
  if (state.route.name !== before) state.job = emptyJob();
  pollNow();
  redraw();
}

// What each view needs: a path, how often, and where the answer goes.

function listPolls() {
  return [
    { path: "/v1/jobs", every: 2, take: takeJobs },
    { path: "/v1/history", every: 10, take: (found) => { state.history = found.runs; } },
  ];
}

function jobPolls({ name }) {
  const job = state.job, of = (route) => jobPath(name, route);
  const running = job.about == null || job.about.pid != null;
  const polls = [{ path: jobPath(name), every: 2, take: takeAbout, key: "about" }];
  if (!running) return polls;
  return [
    ...polls,
    { path: of("statistics"), every: 1, take: takeStatistics, key: "statistics" },
    { path: of("findings"), every: 2, take: (found) => { job.findings = found; }, key: "findings" },
    ...(job.graph ? [] : [{ path: of("graph"), every: 2, take: (found) => { job.graph = found; }, key: "graph" }]),
  ];
}

export function takeJobs(found) {
  state.jobs = found.jobs;
  state.files = found.files;
}

function takeAbout(found) {
  const job = state.job, before = job.about;
  if (before && (before.generation !== found.generation || before.attempt !== found.attempt || before.pid !== found.pid)) {
    job.graph = null;
  }
  job.about = found;
}

export function takeStatistics(found) {
  const job = state.job;
  job.statistics = found;
  job.samples.add(found);
  state.clockOffset = Date.parse(found.time) - Date.now();
  const widths = job.graph?.parts.some((part) => found.parts[part.name]?.parallelism !== part.parallelism);
  if (widths) job.graph = null;
}

/** Requests of the open tab, beside those of every view of a job. */
let tabPolls = () => [];
export function setTabPolls(make) {
  tabPolls = make;
}

const due = new Map();
let timer = null;

/** Fetch at once what the view needs, and go on as often as it needs it. */
export function pollNow() {
  due.clear();
  clearTimeout(timer);
  tick();
}

async function tick() {
  const route = state.route, now = performance.now();
  const polls = route.name ? [...jobPolls(route), ...tabPolls(route)] : listPolls();
  const pending = polls.filter((poll) => (due.get(poll.path) ?? 0) <= now);
  if (!document.hidden) {
    await Promise.all(pending.map((poll) => fetchOne(poll, route)));
  }
  clearTimeout(timer);
  timer = setTimeout(tick, 250);
}

async function fetchOne({ path, every, take, key, read = getJson }, route) {
  due.set(path, performance.now() + every * 1000);
  const job = state.job;
  try {
    const found = await read(path);
    if (route !== state.route && (route.name !== state.route.name || job !== state.job)) return;
    take(found);
    if (key) delete job.problems[key];
    Object.assign(state, { problem: null, answeredAt: Date.now() });
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    if (key && error.status) job.problems[key] = error;
    else state.problem = error;
    if (error.status === 401) state.problem = error;
  }
  redraw();
}
