// Submitting a pipeline: a file that is dropped or chosen, or one of the server's folder.

import { post, role, runOperation } from "./api.js";
import { closeDialog, drawError, notify, openDialog } from "./dialog.js";
import { h } from "./dom.js";
import { link, lookAgain, refresh, redraw } from "./store.js";

/** Open the dialog; with a job, the file becomes its new version. */
export function openSubmit(job = null, file = null) {
  const form = { file: null, text: "", error: null, words: "", isBusy: false, job };
  openDialog(job ? `Upgrade ${job.name}` : "Submit a pipeline", () => drawForm(form));
  if (file) readFile(form, file);
}

async function readFile(form, file) {
  form.file = file.name;
  form.text = await file.text();
  form.error = null;
  redraw();
}

function drawForm(form) {
  const choose = (event) => { if (event.target.files[0]) readFile(form, event.target.files[0]); };
  return h("div", { class: "form" },
    h("label", { class: "drop" }, form.file ?? "Drop a file on this page, or choose one",
      h("input", { type: "file", accept: ".yaml,.yml", onchange: choose, "aria-label": "File of the pipeline" })),
    form.file && h("textarea", { key: "text", rows: "14", spellcheck: "false", "aria-label": "Text of the pipeline", value: form.text,
      oninput: (event) => { form.text = event.target.value; } }),
    form.job && h("p", { class: "muted" }, "The job stops with a savepoint, and the new version resumes. If that fails before its first checkpoint, the version before comes back."),
    drawError(form.error),
    h("div", { class: "buttons" }, h("span", { class: "muted" }, form.words), h("span", { class: "spring" }),
      h("button", { onclick: closeDialog }, "Cancel"),
      h("button", { class: "primary", disabled: !form.file || form.isBusy, onclick: () => send(form) }, form.job ? "Upgrade" : "Start")));
}

async function send(form) {
  Object.assign(form, { isBusy: true, error: null, words: "checking the pipeline" });
  redraw();
  try {
    const name = form.job ? await upgrade(form) : (await post("/v1/jobs", { file: form.file, text: form.text })).name;
    closeDialog();
    notify(form.job ? `${name} is upgraded` : `${name} is started`);
    location.hash = link(name);
    refresh();
  } catch (error) {
    if (error.status === 412) form.job = await lookAgain(form.job);
    form.error = error;
  }
  Object.assign(form, { isBusy: false, words: "" });
  redraw();
}

async function upgrade(form) {
  const { job, file, text } = form;
  await runOperation(job.name, "upgrade", { file, text }, job.generation, (words) => { form.words = words; redraw(); });
  return job.name;
}

/** Start a pipeline of the server's folder. */
export async function startFile(file) {
  try {
    const { name } = await post("/v1/jobs", { file });
    notify(`${name} is started`);
    refresh();
  } catch (error) {
    openDialog("Not started", () => drawError(error));
  }
}

/** Let files be dropped anywhere on the page. */
export function acceptDrops() {
  const mark = (isOver) => document.documentElement.classList.toggle("dropping", isOver && role === "owner");
  addEventListener("dragover", (event) => { event.preventDefault(); mark(true); });
  addEventListener("dragleave", (event) => { if (!event.relatedTarget) mark(false); });
  addEventListener("drop", (event) => {
    event.preventDefault();
    mark(false);
    const file = event.dataTransfer?.files[0];
    if (file && role === "owner") openSubmit(null, file);
  });
}
