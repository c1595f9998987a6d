// One job: its life so far, where its wait went, what it writes, what it holds, and what may be done to it.

import { get, post, Refused } from "../api.js";
import { h, show } from "../dom.js";
import { colours, count, gpuTime, inReceipt, moment, span, why } from "../format.js";
import { shares } from "../parts/chart.js";
import { confirmed } from "../parts/dialog.js";
import { progress, state, table } from "../parts/jobs.js";
import { Logs } from "../parts/logs.js";
import { Timeline } from "../parts/timeline.js";

const OVER = new Set(["COMPLETED", "FAILED", "CANCELLED", "TIMEOUT"]);
const WAITS = new Set(["PENDING", "HELD"]);
const ON_GPUS = new Set(["STARTING", "RUNNING", "STOPPING"]);
const PALETTE = ["c2", "c5", "c1", "c6", "c7", "c4", "c8", "c3"];
const MARKS = 200;
const HARDLY_US = 50_000;

export async function open(root, ctx, [id]) {
  const view = new Job(root, ctx, Number(id));
  await view.update();
  return view;
}

class Job {
  constructor(root, ctx, id) {
    Object.assign(this, { ctx, id, root });
    this.head = h("div", { class: "row jobhead" });
    this.facts = h("dl", { class: "facts" });
    this.waits = h("div");
    this.receipt = h("div");
    this.marks = h("div");
    this.holds = h("div");
    this.file = h("pre", { class: "jobfile", tabindex: "0", "aria-label": "Job file" });
    const life = h("section", { class: "card" }, h("h2", null, "Timeline"));
    const output = h("section", { class: "card" });
    root.append(this.head,
      h("section", { class: "card" }, this.facts),
      life,
      h("div", { class: "columns even" },
        h("div", null, h("section", { class: "card" }, (this.stands = h("h2", null, "Why it waits")), this.waits), h("section", { class: "card" }, h("h2", null, "Where its wait went"), this.receipt)),
        h("div", null, h("section", { class: "card" }, h("h2", null, "What it holds"), this.holds),
          h("section", { class: "card" }, h("details", null, h("summary", null, "Everything that happened"), this.marks)),
          ctx.recording ? null : h("section", { class: "card" }, h("details", null, h("summary", null, "Job file"), this.file)))),
      ctx.recording ? null : output);
    this.timeline = new Timeline(life, ctx.recording);
    this.output = output;
  }

  async update() {
    const path = `/v1/jobs/${this.id}`;
    const [job, explanation, story] = await Promise.all([get(path), get(`${path}/explain`), get(`${path}/story`)]);
    this.job = job;
    if (!this.logs && !this.ctx.recording) this.logs = new Logs(this.output, this.id);
    // A requeued job writes again after its log had ended.
    if (this.wasOver && !OVER.has(job.state) && this.logs) {
      this.logs.close();
      this.output.replaceChildren();
      this.logs = new Logs(this.output, this.id);
    }
    this.wasOver = OVER.has(job.state);
    // A job that waits shows the number of the attempt to come.
    this.logs?.offer(ON_GPUS.has(job.state) || OVER.has(job.state) ? job.attempt : job.attempt - 1);
    this.drawHead(job);
    this.drawFacts(job, story);
    this.timeline.update(story);
    this.drawWaits(job, explanation);
    this.drawReceipt(explanation, story);
    this.drawHolds(job, story);
    this.drawMarks(story);
    this.file.textContent = job.spec ? JSON.stringify(job.spec, null, 2) : "";
  }

  drawHead(job) {
    show(this.head,
      h("i", { class: "dot big", css: colours(job.job_id), "aria-hidden": "true" }),
      h("h1", null, `${job.job_id} ${job.name}`), state(job.state), progress(job), h("span", { class: "space" }), this.buttons(job));
    document.title = `${job.job_id} ${job.name} · Headway`;
  }

  buttons(job) {
    if (this.ctx.recording || !["submit", "operate"].includes(this.ctx.me.scope)) return null;
    const over = OVER.has(job.state);
    const found = [];
    const add = (verb, words, className) => found.push(h("button", { type: "button", class: className, "data-verb": verb, onclick: () => this.act(verb) }, words));
    if (job.state === "PENDING") add("hold", "Hold");
    if (job.state === "HELD") add("release", "Release");
    if (over || ON_GPUS.has(job.state)) add("requeue", over ? "Run again" : "Requeue");
    if (!over) add("cancel", "Cancel", "danger");
    return h("div", { class: "group", role: "group", "aria-label": "What to do with the job" }, found);
  }

  async act(verb) {
    const { job } = this;
    const runs = ON_GPUS.has(job.state);
    const lost = runs && job.unsaved_s ? `It has run ${span(job.unsaved_s)} since its last checkpoint: it may save now, within its grace; otherwise that is lost.` : null;
    if (verb === "cancel" && !(await confirmed(`Cancel job ${job.job_id} ${job.name}?`, [runs ? "It is stopped and does not run again." : "It leaves the queue.", lost].filter(Boolean), "Cancel the job"))) return;
    if (verb === "requeue" && runs && !(await confirmed(`Requeue job ${job.job_id} ${job.name}?`, ["It is stopped and waits again.", lost].filter(Boolean), "Stop and requeue it"))) return;
    try {
      await post(`/v1/jobs/${this.id}/${verb}`);
      this.ctx.tell({ cancel: "The job is being cancelled.", hold: "The job is held.", release: "The job is released.", requeue: "The job is queued again." }[verb]);
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      this.ctx.tell(error.message);
    }
    await this.update();
  }

  drawFacts(job, story) {
    const record = this.ctx.recording;
    const facts = [
      ["User", job.user], ["Queue", job.queue || "–"], ["GPUs", job.gpus], ["Level", job.level], ["Attempt", job.attempt],
      ["Preempted", job.preemptions ? count(job.preemptions, "time") : "never"], ["Attained service", gpuTime(job.service_gpu_s)],
      ["Submitted", moment(job.submitted_at, record)], ["First start", moment(job.first_started_at, record)],
      ["Ended", job.ended_at ? moment(job.ended_at, record) : "–"],
      ["Took", span((job.ended_at ?? story.now) - job.submitted_at)],
    ];
    if (job.exit_code !== null) facts.push(["Exit code", job.exit_code]);
    if (job.progress?.loss !== undefined) facts.push(["Loss", Number(job.progress.loss).toPrecision(4)]);
    show(this.facts, facts.map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, String(value)))));
  }

  drawWaits(job, explanation) {
    const waits = WAITS.has(job.state) && explanation.reason;
    this.stands.textContent = waits ? "Why it waits" : "Where it stands";
    const words = [h("p", null, explanation.message)];
    if (waits) words.unshift(h("p", null, h("b", null, why(explanation.reason))));
    if (explanation.would_change.length) words.push(h("h3", null, "What would change it"), h("ul", null, explanation.would_change.map((line) => h("li", null, line))));
    if (explanation.ahead.length) {
      const more = explanation.numbers.jobs_ahead - explanation.ahead.length;
      words.push(h("h3", null, "Ahead of it"), h("p", null, explanation.ahead.map((id) => [h("a", { href: `#/job/${id}` }, id), " "]), more > 0 ? `and ${more} more` : ""));
    }
    show(this.waits, words);
  }

  drawReceipt(explanation, story) {
    const parts = Object.entries(explanation.receipt_us).sort((a, b) => b[1] - a[1]);
    if (explanation.wait_us < HARDLY_US) return show(this.receipt, h("p", { class: "dim" }, "It has not waited."));
    show(this.receipt,
      h("p", null, "It waited ", h("b", null, span(explanation.wait_us / 1e6)), " of the ", span((this.job.ended_at ?? story.now) - this.job.submitted_at), " since it was submitted."),
      shares(parts.map(([reason, us], i) => ({ name: inReceipt(reason), value: us / 1e6, className: PALETTE[i % PALETTE.length] })), span, "Wait"));
  }

  drawHolds(job, story) {
    const now = story.phases.at(-1);
    if (!now || now.until !== null || !Object.keys(now.nodes).length) return show(this.holds, h("p", { class: "dim" }, "No GPUs now."));
    const lines = [h("p", null, story.gpus.length ? `${count(story.gpus.length, "GPU")}: ${story.gpus.join(", ")}` : Object.entries(now.nodes).map(([node, gpus]) => `${node} × ${gpus}`).join(", "))];
    if (now.links.length) {
      lines.push(h("h3", null, `Links of its own (${now.links.length})`), h("p", null, now.links.join(", ")));
    }
    const held = job.slice;
    if (held && !held.isolated) {
      lines.push(h("h3", null, "Shared links"), h("p", null, "It has no links of its own: others may use those that it uses, so there is no certificate."));
    } else if (held) {
      const signed = held.signed_by ? `signed by ${held.signed_by}` : "not signed";
      lines.push(h("h3", null, "Certificate"), h("p", null, `${held.links.length ? "No other job uses these links" : "It needs no links above its leaf"}: clean for ${held.patterns.join(", ")}; ${signed}.`),
        h("details", null, h("summary", null, "As JSON, for headway fabric verify"), h("pre", { class: "jobfile", tabindex: "0", "aria-label": "Certificate" }, JSON.stringify(held.certificate))));
    }
    show(this.holds, lines);
  }

  drawMarks(story) {
    const rows = story.marks.slice(-MARKS).map((mark) => h("tr", null, h("td", null, moment(mark.time, this.ctx.recording)), h("td", { class: "number" }, mark.attempt), h("td", null, mark.words)));
    show(this.marks, table(["when", "attempt", "what"], rows, "Everything that happened to the job"));
  }

  close() {
    this.logs?.close();
    this.timeline.end();
  }
}
