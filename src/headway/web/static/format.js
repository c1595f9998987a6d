// Numbers, times and colours as people read them.

/** 75 -> "1m 15s", 7260 -> "2h 1m". */
export function span(seconds) {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return "–";
  const total = Math.max(0, seconds);
  if (total < 10) return `${total.toFixed(1)}s`;
  if (total < 60) return `${Math.round(total)}s`;
  const all = Math.round(total);
  const [d, hr, m, sec] = [Math.floor(all / 86400), Math.floor(all / 3600) % 24, Math.floor(all / 60) % 60, all % 60];
  if (d) return hr ? `${d}d ${hr}h` : `${d}d`;
  if (hr) return m ? `${hr}h ${m}m` : `${hr}h`;
  return sec ? `${m}m ${sec}s` : `${m}m`;
}

/** GPU time: seconds below an hour, GPU-hours above. */
export const gpuTime = (gpuSeconds) =>
  gpuSeconds < 3600 ? `${Math.round(gpuSeconds).toLocaleString("en")} GPU-s` : `${(gpuSeconds / 3600).toFixed(1)} GPU-h`;

export const percent = (share) => `${Math.round(100 * share)}%`;
export const count = (n, word, many = `${word}s`) => `${n.toLocaleString("en")} ${n === 1 ? word : many}`;

const two = (n) => String(n).padStart(2, "0");

/** A moment: the time of day (with the date where it is another day), or the time since the start of a recorded run. */
export function moment(time, recording) {
  if (time === null || time === undefined) return "–";
  if (recording) return `+${span(time - recording.first)}`;
  const date = new Date(time * 1000);
  const clock = `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
  return new Date().toDateString() === date.toDateString()
    ? clock
    : `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${clock}`;
}

/** A hue for a job: the golden angle keeps numbers that follow each other far apart. */
export const hue = (job) => Math.round((job * 137.508) % 360);

/** The hue and the shade of a job as properties of a style. */
export const colours = (job) => ({ "--hue": String(hue(job)), "--shade": String((Math.floor(job / 8) % 3) * 7) });

// Why jobs wait, by code: the texts of `GET /v1/reasons`, read once before a page opens.
const reasons = new Map();

export const setReasons = (list) => list.forEach((reason) => reasons.set(reason.code, reason));

/** A reason in a sentence; a code that the manager does not list stays a code. */
export const why = (code) => reasons.get(code)?.long ?? code ?? "";

/** What a receipt counts under a reason, in the words of `headway explain`. */
export const inReceipt = (code) => reasons.get(code)?.in_receipt || (reasons.get(code)?.short ?? code);

/** Why GPUs are idle while jobs wait for this reason. */
export const whyIdle = (code) => reasons.get(code)?.idle || why(code);
