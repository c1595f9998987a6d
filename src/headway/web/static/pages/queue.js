// The queue: priority queues with attained service, why each job waits; search, filters, sorting. Only the rows in sight exist.

import { get } from "../api.js";
import { h, show } from "../dom.js";
import { count, gpuTime, moment, span, why } from "../format.js";
import { link, state } from "../parts/jobs.js";

const PAGE = 100;
const ROW_PX = 38;
const NARROW_PX = 84; // a row on a phone has three lines
const AROUND = 12; // rows beyond the edges of what is in sight
const TYPING_MS = 200;
const ACTIVE = ["PENDING", "HELD", "STARTING", "RUNNING", "STOPPING"];
const OVER = ["COMPLETED", "FAILED", "CANCELLED", "TIMEOUT"];
const COLUMNS = [
  ["order", "#"], ["name", "job"], ["user", "user"], ["state", "state"], ["gpus", "GPUs"], ["queue", "queue"],
  ["level", "level"], ["service", "attained service"], ["waited", "submitted"], ["reason", "why it waits"],
];

export async function open(root, ctx) {
  const view = new Queue(root, ctx);
  await view.update();
  return view;
}

class Queue {
  constructor(root, ctx) {
    this.ctx = ctx;
    this.pages = new Map();
    this.asked = new Set();
    this.total = 0;
    this.version = 0; // raised when filters change; answers to an older version are dropped
    this.summaryText = "";
    this.sort = "order";
    this.descending = false;
    this.text = h("input", { type: "search", placeholder: "name, user or number", "aria-label": "Search", oninput: () => this.typing() });
    this.user = h("select", { "aria-label": "User", onchange: () => this.restart() }, h("option", { value: "" }, "all users"));
    this.queue = h("select", { "aria-label": "Queue", onchange: () => this.restart() }, h("option", { value: "" }, "all queues"));
    const choices = [["", "not ended"], ...ACTIVE.map((name) => [name, name.toLowerCase()]), ["OVER", "ended"], ...(ctx.recording ? [] : OVER.map((name) => [name, name.toLowerCase()]))];
    this.state = h("select", { "aria-label": "State", onchange: () => this.restart() }, choices.map(([value, words]) => h("option", { value }, words)));
    this.summary = h("p", { class: "dim", role: "status", id: "matching" });
    this.teams = h("section", { class: "levels", "aria-label": "Queues of teams" });
    this.levels = h("section", { class: "levels", "aria-label": "Priority queues" });
    this.head = h("div", { class: "vrow vhead", role: "row" });
    this.tall = h("div", { class: "tall", role: "presentation" });
    this.view = h("div", { class: "vscroll", tabindex: "0", role: "rowgroup" }, this.tall);
    this.table = h("div", { class: "vtable", role: "table", "aria-label": "Jobs" }, h("div", { role: "rowgroup" }, this.head), this.view);
    root.append(
      h("div", { class: "row" }, h("h1", null, "Queue"), this.text, this.user, this.queue, this.state, this.summary),
      this.teams, this.levels, h("section", { class: "card flush" }, this.table));
    this.narrow = matchMedia("(max-width: 900px)");
    this.onNarrow = () => this.draw();
    this.narrow.addEventListener("change", this.onNarrow);
    this.view.addEventListener("scroll", () => this.scrolled(), { passive: true });
    this.drawHead();
  }

  get over() {
    return this.state.value === "OVER" || OVER.includes(this.state.value);
  }

  typing() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.restart(), TYPING_MS);
  }

  async restart() {
    this.version++;
    this.pages.clear();
    this.asked.clear();
    this.view.scrollTop = 0;
    this.drawHead();
    await this.update().catch(this.ctx.failed);
  }

  drawHead() {
    show(this.head, COLUMNS.map(([name, words]) => {
      const here = this.sort === name;
      const by = here ? (this.descending ? "descending" : "ascending") : "none";
      const press = () => {
        this.descending = this.sort === name && !this.descending;
        this.sort = name;
        this.restart();
      };
      const label = this.over ? words : h("button", { type: "button", onclick: press }, words, here ? (this.descending ? " ▾" : " ▴") : "");
      return h("span", { role: "columnheader", class: `v-${name}`, "aria-sort": this.over ? null : by }, label);
    }));
  }

  get rowPx() {
    return this.narrow.matches ? NARROW_PX : ROW_PX;
  }

  get inSight() {
    const first = Math.max(0, Math.floor(this.view.scrollTop / this.rowPx) - AROUND);
    return [first, Math.min(this.total, first + Math.ceil(this.view.clientHeight / this.rowPx) + 2 * AROUND)];
  }

  scrolled() {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.draw();
      this.fetchMissing().catch(this.ctx.failed);
    });
  }

  async update() {
    const [first, last] = this.inSight;
    const wanted = this.over ? [0] : [...new Set([Math.floor(first / PAGE), Math.floor(Math.max(first, last - 1) / PAGE)])];
    const [kept, version] = [new Map(this.pages), this.version];
    await Promise.all([this.loadTeams(), ...wanted.map((page) => this.load(page))]);
    if (version !== this.version) return;
    // What is not in sight is asked for again when it comes into sight.
    for (const page of kept.keys()) if (!wanted.includes(page) && this.pages.get(page) === kept.get(page) && !this.over) this.asked.delete(page);
    this.draw();
  }

  async fetchMissing() {
    const [first, last] = this.inSight;
    const pages = new Set([Math.floor(first / PAGE), Math.floor(Math.max(first, last - 1) / PAGE)]);
    const missing = [...pages].filter((page) => !this.asked.has(page));
    if (!missing.length) return;
    await Promise.all(missing.map((page) => this.load(page)));
    this.draw();
  }

  async load(page) {
    this.asked.add(page);
    const [version, number] = [this.version, (this.run = (this.run ?? 0) + 1)];
    const filters = { user: this.user.value, queue: this.queue.value };
    try {
      if (this.over) await this.loadOver(page, filters, version);
      else await this.loadActive(page, filters, version, number);
    } catch (error) {
      this.asked.delete(page);
      throw error;
    }
  }

  async loadActive(page, filters, version, number) {
    const found = await get("/v1/queue", {
      text: this.text.value, ...filters, state: this.state.value, sort: this.sort, descending: this.descending, offset: page * PAGE, limit: PAGE,
    });
    if (version !== this.version) return;
    this.pages.set(page, found.jobs);
    if (number < (this.shown ?? 0)) return;
    this.shown = number;
    this.total = found.matching;
    this.now = found.now;
    const all = found.total === found.matching ? "" : ` of ${found.total.toLocaleString("en")}`;
    this.summaryText = `${found.matching.toLocaleString("en")}${all} ${found.matching === 1 ? "job" : "jobs"}`;
    this.drawLevels(found);
    choose(this.user, "all users", found.users);
    choose(this.queue, "all queues", found.queues.filter(Boolean));
  }

  /** Jobs that have ended come by number, the newest first: each page begins where the one before ended. */
  async loadOver(page, filters, version) {
    const before = page ? this.pages.get(page - 1)?.at(-1)?.job_id : 0;
    if (before === undefined) return this.asked.delete(page);
    const found = await get("/v1/jobs", {
      ...filters, name: this.text.value, state: this.state.value === "OVER" ? OVER : this.state.value, newest: true, after_id: before, limit: PAGE,
    });
    if (version !== this.version) return;
    this.pages.set(page, found.jobs);
    this.total = Math.max(this.total * (page ? 1 : 0), page * PAGE + found.jobs.length + (found.next_after_id ? PAGE : 0));
    this.summaryText = found.next_after_id ? "the newest of the ended jobs; scroll for older ones" : count(page * PAGE + found.jobs.length, "ended job");
    show(this.levels);
  }

  /** What each team is guaranteed, uses and has borrowed; nothing without a queues file. */
  async loadTeams() {
    if (this.ctx.recording) return;
    const { queues } = await get("/v1/queues");
    show(this.teams, queues.map((each) => {
      const most = Math.max(1, each.guaranteed_gpus, each.used_gpus);
      const own = each.used_gpus - each.borrowed_gpus;
      const said = `${count(each.used_gpus, "GPU")} in use, ${each.guaranteed_gpus} guaranteed${each.borrowed_gpus ? `, ${each.borrowed_gpus} borrowed` : ""}`;
      return h("div", { class: "level card", "data-team": each.name },
        h("b", null, each.parent ? `${each.name} (of ${each.parent})` : each.name), h("span", { class: "dim" }, said),
        h("span", { class: "bars", role: "img", "aria-label": said },
          h("i", { class: "c1", css: { width: `${(100 * own) / most}%` } }), h("i", { class: "c2", css: { width: `${(100 * each.borrowed_gpus) / most}%` } })),
        h("span", { class: "dim" }, `${each.running} running, ${each.waiting} waiting`));
    }));
  }

  drawLevels({ levels }) {
    if (levels.length < 2) return show(this.levels);
    const last = levels.findLastIndex((each) => each.running + each.waiting > 0);
    const most = Math.max(1, ...levels.map((each) => each.running + each.waiting));
    show(this.levels, levels.slice(0, Math.max(2, last + 1)).map((each) => {
      const range = each.to_gpu_s === null ? `above ${gpuTime(each.from_gpu_s)}` : `up to ${gpuTime(each.to_gpu_s)}`;
      return h("div", { class: "level card" },
        h("b", null, `Level ${each.level}`), h("span", { class: "dim" }, range),
        h("span", { class: "bars", role: "img", "aria-label": `${each.running} running, ${each.waiting} waiting` },
          h("i", { class: "c1", css: { width: `${(100 * each.running) / most}%` } }), h("i", { class: "c2", css: { width: `${(100 * each.waiting) / most}%` } })),
        h("span", { class: "dim" }, `${each.running} running, ${each.waiting} waiting`));
    }));
  }

  draw() {
    const [first, last] = this.inSight;
    if (this.summary.textContent !== this.summaryText) show(this.summary, this.summaryText); // together with its rows
    this.tall.style.setProperty("height", `${this.total * this.rowPx}px`);
    this.table.setAttribute("aria-rowcount", this.total + 1);
    const rows = [];
    for (let i = first; i < last; i++) rows.push(this.row(i, this.pages.get(Math.floor(i / PAGE))?.[i % PAGE]));
    const focused = document.activeElement?.closest?.(".vrow")?.dataset.job;
    this.tall.replaceChildren(...rows);
    if (!this.total && this.asked.size) this.tall.replaceChildren(h("div", { class: "dim vempty", role: "row" }, h("span", { role: "cell" }, "No job matches.")));
    if (focused) this.tall.querySelector(`[data-job="${CSS.escape(focused)}"] a`)?.focus({ preventScroll: true });
  }

  row(i, job) {
    const place = { top: `${i * this.rowPx}px` };
    if (!job) return h("div", { class: "vrow dim", role: "row", css: place, "aria-rowindex": i + 2 }, h("span", { role: "cell", class: "v-name" }, "…"));
    const cell = (name, ...content) => h("span", { role: "cell", class: `v-${name}`, title: typeof content[0] === "string" && content[0].length > 16 ? content[0] : null }, content);
    return h("div", { class: "vrow", role: "row", css: place, "aria-rowindex": i + 2, "data-job": job.job_id },
      cell("order", job.position ?? ""),
      cell("name", link(job)), cell("user", job.user), cell("state", state(job.state)), cell("gpus", job.gpus), cell("queue", job.queue),
      cell("level", job.level), cell("service", this.service(job)),
      cell("waited", this.ctx.recording ? moment(job.submitted_at, this.ctx.recording) : this.over ? moment(job.ended_at) : `${span((this.now ?? 0) - job.submitted_at)} ago`),
      cell("reason", job.message && this.over ? job.message : job.state === "STOPPING" ? "" : why(job.reason)));
  }

  service(job) {
    const bar = job.preemptions ? ` · ${count(job.preemptions, "stop")}` : "";
    return `${gpuTime(job.service_gpu_s)}${bar}`;
  }

  close() {
    this.narrow.removeEventListener("change", this.onNarrow);
    clearTimeout(this.timer);
  }
}

/** Offer these names beside "all"; the choice stays. */
function choose(select, all, names) {
  const had = [...select.options].slice(1).map((option) => option.value).join("\n");
  const offered = select.value && !names.includes(select.value) ? [...names, select.value] : names;
  if (had === offered.join("\n")) return;
  const chosen = select.value;
  select.replaceChildren(h("option", { value: "" }, all), ...offered.map((name) => h("option", { value: name }, name)));
  select.value = chosen;
}
