// What several pages show of jobs.

import { h } from "../dom.js";
import { colours } from "../format.js";

export const state = (name) => h("span", { class: "state", "data-state": name.toLowerCase() }, name.toLowerCase());

/** A link to a job, with its colour. */
export const link = (job) =>
  h("a", { class: "job", href: `#/job/${job.job_id}` }, h("i", { class: "dot", css: colours(job.job_id), "aria-hidden": "true" }), `${job.job_id} ${job.name}`);

/** How far a job has come, by its own reports; nothing where it reports none. */
export function progress(job) {
  const { step, total } = job.progress ?? {};
  if (step === undefined) return null;
  if (!total) return h("span", { class: "dim" }, `step ${step}`);
  return h("progress", { max: total, value: Math.min(step, total), "aria-label": `step ${step} of ${total}`, title: `step ${step} of ${total}` });
}

const NUMBERS = new Set(["links", "contended", "attempt", "GPUs", "for", "mean", "median", "p95", "all done", "preemptions"]); // columns to the right

/** A table that scrolls sideways where it must. */
export const table = (heads, rows, label) =>
  h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label },
    h("table", null, h("caption", { class: "hidden" }, label), h("thead", null, h("tr", null, heads.map((head) => h("th", { scope: "col", class: NUMBERS.has(head) ? "number" : null }, head)))), h("tbody", null, rows)));
