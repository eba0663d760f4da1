// The state of the page, the view that the URL names, and what the server says about it.

import { ApiError, getJson, jobPath } from "./api.js";
import { EventStream } from "./events.js";
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
  return { graph: null, statistics: null, findings: null, lastRun: null, checkpoints: null, problems: {}, samples: new Samples(), tabs: {}, taps: [], takeRows: null };
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

/** The open job as the list of jobs has it; undefined if there is none of its name. */
export function openJob() {
  return state.jobs?.find((job) => job.name === state.route.name);
}

/** The job as it is now, for a request that was rejected since it has changed; as it was, if nothing answers. */
export async function lookAgain(job) {
  try {
    takeJobs(await getJson("/v1/jobs"));
  } catch {
    return job;
  }
  return state.jobs.find((each) => each.name === job.name) ?? job;
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

/** Ends the requests of a view that nobody looks at any more. */
let view = new AbortController();

export function viewSignal() {
  return view.signal;
}

export function openRoute() {
  const before = state.route;
  state.route = parseRoute(location.hash);
  if (state.route.name !== before.name || state.route.tab !== before.tab) {
    view.abort();
    view = new AbortController();
  }
  if (state.route.name !== before.name) state.job = emptyJob();
  if (state.route.tab !== "rows") Object.assign(state.job, { taps: [], takeRows: null });
  refresh();
  redraw();
}

// The stream of events: all jobs, and the figures and rows of the open one

const stream = new EventStream(takeEvent, (error) => { state.problem = error; redraw(); });

/** Open the stream that the view needs, and fetch at once what is not in it. */
export function refresh() {
  const { name } = state.route, { taps } = state.job;
  stream.want(document.hidden ? null : { jobs: true, ...(name && { job: name, taps }) });
  due.clear();
  clearTimeout(timer);
  poll();
}

function takeEvent(kind, data) {
  Object.assign(state, { problem: null, answeredAt: Date.now() });
  if (kind === "jobs") takeJobs(data);
  else if (kind === "job" && data.name === state.route.name) takeFigures(data);
  else if (kind === "rows" || kind === "error") state.job.takeRows?.(kind, data);
  redraw();
}

function takeJobs(found) {
  const before = openJob();
  Object.assign(state, { jobs: found.jobs, files: found.files });
  const now = openJob();
  const isOther = before?.generation !== now?.generation || before?.pid !== now?.pid || before?.attempt !== now?.attempt;
  if (isOther && now?.status !== "silent") Object.assign(state.job, { graph: null, lastRun: null });
  if (now?.pid == null) Object.assign(state.job, { statistics: null, findings: null });
}

function takeFigures({ statistics, findings }) {
  const { job } = state;
  Object.assign(job, { statistics, findings });
  job.samples.add(statistics);
  state.clockOffset = Date.parse(statistics.time) - Date.now();
  const isRescaled = job.graph?.parts.some((part) => statistics.parts[part.name]?.parallelism !== part.parallelism);
  if (isRescaled) job.graph = null;
}

// What is not in the stream: { path, every, take, key, read }, of the view and of its tab

let tabPolls = () => [];
export function setTabPolls(make) {
  tabPolls = make;
}

function listPolls({ name }) {
  if (!name) return [{ path: "/v1/history", every: 10, take: (found) => { state.history = found.runs; } }];
  const { job } = state, isUp = openJob()?.pid != null;
  const graph = { path: jobPath(name, "graph"), every: isUp ? 1 : 30, key: "graph", take: (found) => { job.graph = found; } };
  return [...(openJob() && !job.graph ? [graph] : []), ...tabPolls(state.route)];
}

const due = new Map();
let timer = null;

async function poll() {
  const now = performance.now();
  const pending = document.hidden || state.problem?.status === 401 ? [] : listPolls(state.route).filter((each) => (due.get(each.path) ?? 0) <= now);
  try {
    await Promise.all(pending.map((each) => fetchOne(each, state.job)));
  } finally {
    clearTimeout(timer);
    timer = setTimeout(poll, 200);
  }
}

async function fetchOne({ path, every, take, key, read = getJson }, job) {
  due.set(path, performance.now() + every * 1000);
  try {
    const found = await read(path);
    if (job !== state.job) return;
    take(found);
    if (key) delete job.problems[key];
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    if (key && error.status && error.status !== 401) job.problems[key] = error;
    else state.problem = error;
  }
  redraw();
}
