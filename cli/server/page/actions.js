// What an owner may do with a job. Each request names the generation that its dialog has shown.

import { runOperation } from "./api.js";
import { drawError, notify, openDialog } from "./dialog.js";
import { h } from "./dom.js";
import { formatCount } from "./format.js";
import { lookAgain, redraw, refresh } from "./store.js";
import { openSubmit } from "./submit.js";

export function drawActions(job) {
  const isUp = job.pid != null, canStop = isUp || job.status === "waiting";
  return h("div", { class: "actions" },
    isUp && h("button", { onclick: () => openAction(job, SAVEPOINT) }, "Savepoint"),
    isUp && h("button", { onclick: () => openAction(job, RESCALE) }, "Rescale"),
    job.served && h("button", { onclick: () => openSubmit(job) }, "Upgrade"),
    job.served && h("button", { onclick: () => openAction(job, RESTART) }, isUp ? "Restart" : "Start"),
    canStop && h("button", { class: "danger", onclick: () => openAction(job, STOP) }, "Stop"));
}

const SAVEPOINT = {
  title: "Take a savepoint", route: "savepoints", button: "Take savepoint",
  text: "The whole state of the job in a folder of its own. The job goes on meanwhile.",
  fields: [["to", "Folder", "by default among the job's savepoints"]],
  build: ({ to }) => (to ? { to } : {}),
  describe: (result) => `Savepoint of checkpoint ${result.checkpoint}: ${result.path}`,
};

const RESCALE = {
  title: "Rescale", route: "rescale", button: "Rescale",
  text: "The job stands still from a checkpoint to its restore at the new width.",
  fields: [["parallelism", "Subtasks of each part", "number"], ["workers", "Worker processes", "number"]],
  build: ({ parallelism, workers }) => ({
    ...(parallelism && { parallelism: Number(parallelism) }), ...(workers && { workers: Number(workers) }),
  }),
  describe: (result) => `Rescaled${result?.stood_still_s != null ? `; it stood still for ${result.stood_still_s} s` : ""}`,
};

const RESTART = {
  title: "Restart", route: "restart", button: "Restart",
  text: "The job stops with a checkpoint and resumes from it, in the version that ran.",
  fields: [["savepoint", "Resume from this savepoint instead", "path"], ["fresh", "Start from scratch: remove its checkpoints", "checkbox"]],
  build: ({ savepoint, fresh }) => ({ ...(savepoint && { savepoint }), ...(fresh && { fresh: true }) }),
  describe: (result) => [
    result.checkpoint == null ? "Started from scratch" : `Resumed from checkpoint ${result.checkpoint}`,
    ...Object.entries(result.again ?? {}).map(([sink, rows]) => `sink ${sink}: up to ${formatCount(rows)} rows are written again`),
  ].join("; "),
};

const STOP = {
  title: "Stop", route: "stop", button: "Stop",
  text: "The job ends after a checkpoint, from which a restart resumes.",
  fields: [["savepoint", "Make a savepoint as well", "checkbox"], ["drain", "Drain: emit all windows as at the end of time", "checkbox"]],
  build: ({ savepoint, drain }) => ({ ...(savepoint && { savepoint: true }), ...(drain && { drain: true }) }),
  describe: (result) => (result?.path ? `Stopped; savepoint ${result.path}` : "Stopped"),
};

export function openSavepoint(job) {
  openAction(job, SAVEPOINT);
}

function openAction(job, action) {
  const form = { job, words: "", error: null, isBusy: false, result: null };
  openDialog(`${action.title}: ${job.name}`, (close) => drawAction(action, form, close));
}

function drawAction(action, form, close) {
  const submit = (event) => { event.preventDefault(); carryOut(action, form, read(event.target, action.fields)); };
  return h("form", { class: "form", onsubmit: submit },
    h("p", null, action.text),
    form.result == null && action.fields.map(([name, label, kind]) => h("label", { class: kind === "checkbox" ? "check" : "" },
      kind === "checkbox" ? [h("input", { type: "checkbox", name }), label] : [label, h("input", { name, type: kind === "number" ? "number" : "text", min: kind === "number" ? "1" : null, placeholder: kind === "number" || kind === "path" ? null : kind })])),
    drawError(form.error),
    form.result && h("p", { class: "result", role: "status" }, form.result),
    h("div", { class: "buttons" }, h("span", { class: "muted" }, form.words), h("span", { class: "spring" }),
      h("button", { type: "button", onclick: close }, form.result ? "Close" : "Cancel"),
      !form.result && h("button", { class: action === STOP ? "danger primary" : "primary", disabled: form.isBusy }, action.button)));
}

function read(element, fields) {
  return Object.fromEntries(fields.map(([name, , kind]) => {
    const input = element.elements[name];
    return [name, kind === "checkbox" ? input.checked : input.value.trim()];
  }));
}

async function carryOut(action, form, values) {
  Object.assign(form, { isBusy: true, error: null });
  redraw();
  const { name, generation } = form.job;
  try {
    const operation = await runOperation(name, action.route, action.build(values), action === SAVEPOINT ? null : generation, (words) => { form.words = words; redraw(); });
    form.result = action.describe(operation.result);
    notify(form.result, "good");
  } catch (error) {
    if (error.status === 412) form.job = await lookAgain(form.job);
    const hasEnded = action === STOP && form.words && ["not_running", "silent"].includes(error.code);
    if (hasEnded) form.result = "Stopped";
    else form.error = error;
  }
  Object.assign(form, { isBusy: false, words: "" });
  refresh();
}
