// The stream of server-sent events, read by fetch, since EventSource sends no header with a token.

import { open } from "./api.js";

const FIRST_DELAY_MS = 500;
const LONGEST_DELAY_MS = 5000;
/** A stream that is silent for longer is lost: a comment comes in 15 seconds. */
export const LATE_MS = 20_000;

/** A stream that is opened again when it ends or is silent, and when something else is wanted. */
export class EventStream {
  /** `take` gets the kind and the data of each event, `fail` why there is no stream. */
  constructor(take, fail) {
    Object.assign(this, { take, fail, wanted: "", abort: null, late: null, delay: FIRST_DELAY_MS });
  }

  /** Want the events of this body; null closes the stream. */
  want(body) {
    const wanted = body == null ? "" : JSON.stringify(body);
    if (wanted === this.wanted) return;
    this.wanted = wanted;
    this.delay = FIRST_DELAY_MS;
    this.begin();
  }

  /** Open the wanted stream in place of the one before. */
  begin() {
    clearTimeout(this.late);
    this.abort?.abort();
    if (this.wanted) this.run(JSON.parse(this.wanted), (this.abort = new AbortController()).signal);
  }

  /** Begin again if nothing comes for long: a connection whose other end is gone need not fail. */
  watch() {
    clearTimeout(this.late);
    this.late = setTimeout(() => this.begin(), LATE_MS);
  }

  async run(body, signal) {
    while (!signal.aborted) {
      this.watch();
      try {
        await this.read(await open("/v1/events", body, signal));
      } catch (error) {
        if (signal.aborted) return;
        if (error.status === 401) { this.wanted = ""; this.fail(error); return; }
        this.fail(error);
      }
      await new Promise((resume) => setTimeout(resume, this.delay));
      this.delay = Math.min(2 * this.delay, LONGEST_DELAY_MS);
    }
  }

  async read(body) {
    const reader = body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      this.watch();
      const blocks = (rest + value).split("\n\n");
      rest = blocks.pop();
      for (const block of blocks) this.takeBlock(block);
      this.delay = FIRST_DELAY_MS;
    }
  }

  takeBlock(block) {
    let kind = "message", data = "";
    for (const line of block.split("\n")) {
      if (line.startsWith("event: ")) kind = line.slice(7);
      else if (line.startsWith("data: ")) data += line.slice(6);
    }
    this.take(data ? kind : "comment", data ? JSON.parse(data) : null);
  }
}
