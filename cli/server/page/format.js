// Numbers, times and sizes as people read them.

const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const UNITS = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];

/** 1,204 */
export function formatCount(number) {
  return number == null ? "" : WHOLE.format(number);
}

/** 1,204 or 132k or 4.1M */
export function formatShort(number) {
  if (number == null) return "";
  const size = Math.abs(number);
  if (size >= 1e9) return `${(number / 1e9).toFixed(1)}G`;
  if (size >= 1e6) return `${(number / 1e6).toFixed(1)}M`;
  if (size >= 1e5) return `${(number / 1e3).toFixed(0)}k`;
  return size >= 10 || Number.isInteger(number) ? WHOLE.format(number) : number.toFixed(1);
}

/** Rows per second; none before there are two samples. */
export function formatRate(number) {
  return number == null ? "–" : `${formatShort(number)}/s`;
}

/** 0.021 → 21 ms, 2.34 → 2.3 s, 182 → 3 min 2 s */
export function formatDuration(seconds) {
  if (seconds == null) return "";
  const size = Math.abs(seconds);
  if (size < 1) return `${Math.round(seconds * 1000)} ms`;
  if (size < 10) return `${seconds.toFixed(1)} s`;
  const whole = Math.floor(size), sign = seconds < 0 ? "−" : "";
  const at = UNITS.findIndex(([unit]) => whole >= unit);
  const [unit, name] = UNITS[at], below = UNITS[at + 1];
  const rest = below ? Math.floor((whole % unit) / below[0]) : 0;
  return `${sign}${Math.floor(whole / unit)} ${name}${rest ? ` ${rest} ${below[1]}` : ""}`;
}

/** A watermark's distance from the clock, in words. */
export function formatLag(seconds) {
  return seconds < 0 ? `${formatDuration(-seconds)} ahead of the clock` : `${formatDuration(seconds)} behind the clock`;
}

/** How long ago a time was, by the server's clock. */
export function formatAge(time, now) {
  const passed = (now - Date.parse(time)) / 1000;
  return Number.isNaN(passed) ? "" : `${formatDuration(Math.max(0, Math.floor(passed)))} ago`;
}

/** 79 B, 3.1 kB, 12 MB */
export function formatBytes(bytes) {
  if (bytes == null) return "";
  let size = bytes, at = 0;
  const units = ["B", "kB", "MB", "GB", "TB"];
  while (size >= 1000 && at < units.length - 1) [size, at] = [size / 1000, at + 1];
  return `${at && size < 100 ? size.toFixed(1) : Math.round(size)} ${units[at]}`;
}

export function formatShare(share) {
  return `${Math.round(share * 100)} %`;
}

/** The local time of day; with the date if that is another one. */
export function formatClock(time) {
  const at = new Date(time);
  if (Number.isNaN(at.getTime())) return String(time ?? "");
  const clock = at.toLocaleTimeString("en-GB");
  return at.toDateString() === new Date().toDateString() ? clock : `${at.toLocaleDateString("en-CA")} ${clock}`;
}

/** 2026-01-31T08:00:02.000Z → 2026-01-31 08:00:02.000 */
export function formatWatermark(text) {
  return text == null ? "" : text.replace("T", " ").replace(/Z$/, "");
}

/** { split: "a.jsonl", position: 129 } → a.jsonl at 129 */
export function formatPlace({ split, position }) {
  if (split == null) return "";
  return `${split}${position == null ? "" : ` at ${typeof position === "object" ? JSON.stringify(position) : position}`}`;
}

export function plural(number, word, many = `${word}s`) {
  return `${formatCount(number)} ${number === 1 ? word : many}`;
}
