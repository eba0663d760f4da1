// The pipeline of a job: the text of the version that runs, what its file has changed since, settings.

import { jobPath, role, runOperation } from "./api.js";
import { drawError, notify, openDialog } from "./dialog.js";
import { h } from "./dom.js";
import { lookAgain, openJob, refresh, state } from "./store.js";

const CONTEXT = 3;
const MOST_CELLS = 4_000_000;

export const pipelineTab = {
  polls: ({ name }) => [
    { path: jobPath(name, "pipeline"), every: 5, key: "pipeline", take: (found) => { state.job.tabs.pipeline = found; } },
    ...(openJob()?.pid != null ? [{ path: jobPath(name, "settings"), every: 15, key: "settings", take: (found) => { state.job.tabs.settings = found.settings; } }] : []),
  ],
  draw,
};

function draw() {
  const about = openJob(), { pipeline: found, settings } = state.job.tabs;
  if (!found) return h("p", { class: "muted empty" }, state.job.problems.pipeline?.message ?? "Waiting for the pipeline …");
  const changed = found.file !== found.running;
  return [
    h("div", { class: "head" }, h("h2", { class: "mono" }, about.file), h("span", { class: "muted" }, found.file == null ? "the file is gone" : changed ? "" : "the file is what runs"),
      h("span", { class: "spring" }),
      changed && found.file != null && role === "owner" && h("button", { class: "primary", onclick: () => upgradeToFile(about) }, "Upgrade to the file")),
    changed && found.file != null && h("section", null, h("h2", null, "Changed in the file since"), drawDiff(found.running, found.file)),
    h("section", null, h("h2", null, "As it runs"), h("pre", { class: "panel text" }, numbered(found.running ?? ""))),
    settings && h("section", null, h("h2", null, "Settings"), h("div", { class: "panel scroll" }, h("dl", { class: "settings mono" },
      settings.map((each) => h("div", { key: each.name, class: each.is_default ? "muted" : "", title: each.is_default ? "The default" : "Set by the pipeline" }, h("dt", null, each.name), h("dd", null, formatSetting(each)))))))];
}

function formatSetting({ name, value }) {
  return value == null ? "–" : /bytes|memory|max_/.test(name) && value >= 2 ** 20 ? `${value / 2 ** 20} MiB` : String(value);
}

async function upgradeToFile(job) {
  try {
    await runOperation(job.name, "upgrade", { file: job.file }, job.generation, notify);
    notify(`${job.name} is upgraded`, "good");
  } catch (error) {
    if (error.status === 412) await lookAgain(job);
    openDialog(`Upgrade ${job.name}`, () => drawError(error));
  }
  refresh();
}

function numbered(text) {
  return text.replace(/\n$/, "").split("\n").map((line, at) => [h("span", { class: "number" }, String(at + 1)), line, "\n"]);
}

function drawDiff(before, after) {
  const lines = compareLines(before.split("\n"), after.split("\n"));
  const near = lines.map((_, at) => lines.slice(Math.max(0, at - CONTEXT), at + CONTEXT + 1).some((each) => each.kind !== " "));
  return h("pre", { class: "panel text" }, lines.map((line, at) => (near[at]
    ? h("span", { class: line.kind === "+" ? "added" : line.kind === "-" ? "removed" : "same" }, `${line.kind} ${line.text}\n`)
    : at > 0 && near[at - 1] ? h("span", { class: "muted" }, "…\n") : null)));
}

/** The lines of two texts with what is removed and added, by their longest common subsequence. */
export function compareLines(before, after) {
  if (before.length * after.length > MOST_CELLS) return [...before.map((text) => ({ kind: "-", text })), ...after.map((text) => ({ kind: "+", text }))];
  const lengths = Array.from({ length: before.length + 1 }, () => new Uint32Array(after.length + 1));
  for (let a = before.length - 1; a >= 0; a--) {
    for (let b = after.length - 1; b >= 0; b--) {
      lengths[a][b] = before[a] === after[b] ? lengths[a + 1][b + 1] + 1 : Math.max(lengths[a + 1][b], lengths[a][b + 1]);
    }
  }
  const lines = [];
  let a = 0, b = 0;
  while (a < before.length || b < after.length) {
    if (a < before.length && b < after.length && before[a] === after[b]) [lines[lines.length], a, b] = [{ kind: " ", text: before[a] }, a + 1, b + 1];
    else if (b >= after.length || (a < before.length && lengths[a + 1][b] >= lengths[a][b + 1])) lines.push({ kind: "-", text: before[a++] });
    else lines.push({ kind: "+", text: after[b++] });
  }
  return lines;
}
