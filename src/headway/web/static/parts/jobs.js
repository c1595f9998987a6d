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
