// The GPUs as a map of nodes, coloured by job. One stop for the keyboard: arrows move between GPUs, Enter opens the job.

import { h, show } from "../dom.js";
import { colours, count, span } from "../format.js";

export class GpuMap {
  constructor(root, { onOpen }) {
    this.onOpen = onOpen;
    this.grid = h("div", { class: "gpumap", role: "grid", "aria-label": "GPUs by node. Arrow keys move, Enter opens the job." });
    this.said = h("p", { class: "said dim", "aria-live": "polite" });
    root.append(this.grid, this.said);
    this.cells = [];
    this.at = 0;
    this.words = "Point at a GPU to see its job, or use the arrow keys.";
    this.said.textContent = this.words;
    this.grid.addEventListener("pointerover", (event) => this.look(event.target.closest("[data-i]")));
    this.grid.addEventListener("pointerleave", () => this.look(null));
    this.grid.addEventListener("focusin", (event) => this.look(event.target.closest("[data-i]")));
    this.grid.addEventListener("click", (event) => this.open(event.target.closest("[data-i]")));
    this.grid.addEventListener("keydown", (event) => this.key(event));
  }

  update(overview) {
    this.now = overview.now;
    this.jobs = new Map([...overview.jobs].map((job) => [job.job_id, job]));
    const shape = overview.nodes.map((node) => `${node.name}/${node.gpus.length}`).join();
    if (shape !== this.shape) this.build(overview, shape);
    let i = 0;
    overview.nodes.forEach((node, n) => {
      const busy = node.gpus.filter((holders) => holders.length).length;
      this.rows[n].dataset.state = node.state;
      this.heads[n].textContent = node.state === "open" ? node.name : `${node.name} (${node.state})`;
      this.rows[n].title = `${node.name}: ${busy} of ${count(node.gpus.length, "GPU")} in use${node.state === "open" ? "" : `, ${node.state}`}`;
      node.gpus.forEach((holders, gpu) => this.paint(this.cells[i++], node, gpu, holders));
    });
    if (this.looked) this.look(this.looked);
  }

  build(overview, shape) {
    this.shape = shape;
    this.cells = [];
    this.heads = [];
    const total = overview.nodes.reduce((sum, node) => sum + node.gpus.length, 0);
    this.grid.dataset.size = total <= 128 ? "large" : total <= 1024 ? "medium" : "small";
    this.rows = overview.nodes.map((node) => {
      const head = h("span", { class: "node-name", role: "rowheader" }, node.name);
      this.heads.push(head);
      const cells = node.gpus.map(() => {
        const cell = h("span", { class: "gpu", role: "gridcell", "data-i": this.cells.length, tabindex: this.cells.length === this.at ? 0 : -1 });
        this.cells.push(cell);
        return cell;
      });
      return h("div", { class: "node", role: "row" }, head, h("span", { class: "gpus", role: "presentation" }, cells));
    });
    if (this.at >= this.cells.length) this.at = 0;
    this.grid.replaceChildren(...this.rows);
  }

  paint(cell, node, gpu, holders) {
    const job = this.jobs.get(holders[0]);
    const key = `${holders.join()} ${job?.state} ${node.state} ${holders.length && !holders[0]}`;
    if (cell.key === key) return;
    cell.key = key;
    cell.jobs = holders;
    cell.where = `${node.name} GPU ${gpu}`;
    cell.dataset.state = holders.length ? (job ? job.state.toLowerCase() : "other") : node.state === "open" ? "free" : "closed";
    cell.dataset.job = holders.join(" ");
    cell.textContent = job && this.grid.dataset.size === "large" ? holders[0] : "";
    cell.setAttribute("aria-label", `${cell.where}: ${this.holder(holders, node)}`);
    if (job) for (const [name, value] of Object.entries(colours(holders[0]))) cell.style.setProperty(name, value);
  }

  holder(holders, node) {
    if (!holders.length) return node.state === "open" ? "free" : node.state;
    return holders.map((id) => (this.jobs.has(id) ? `job ${id} ${this.jobs.get(id).name}` : "somebody else's job")).join(" and ");
  }

  /** Say who is on a GPU, and show the others of the same job. */
  look(cell) {
    this.looked = cell;
    const found = cell ? cell.jobs?.[0] : undefined;
    for (const each of this.cells) each.classList.toggle("same", Boolean(found) && each.jobs?.[0] === found);
    this.grid.classList.toggle("looking", Boolean(found));
    if (!cell) return show(this.said, this.words);
    const job = this.jobs.get(found);
    const words = job
      ? [h("b", null, `job ${job.job_id} ${job.name}`), ` of ${job.user} · ${count(job.gpus, "GPU")} · ${job.state} for ${span(this.now - (job.started_at ?? this.now))}`]
      : [cell.jobs?.length ? "somebody else's job" : "free"];
    show(this.said, `${cell.where}: `, words);
  }

  open(cell) {
    if (cell && this.jobs.has(cell.jobs?.[0])) this.onOpen(cell.jobs[0]);
  }

  key(event) {
    const across = Number(getComputedStyle(this.grid).getPropertyValue("--across")) || 4;
    const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: across, ArrowUp: -across, Home: -this.cells.length, End: this.cells.length };
    if (event.key === "Enter" || event.key === " ") this.open(this.cells[this.at]);
    else if (event.key in steps) this.cells[this.at].tabIndex = -1;
    else return;
    event.preventDefault();
    if (!(event.key in steps)) return;
    this.at = Math.min(this.cells.length - 1, Math.max(0, this.at + steps[event.key]));
    this.cells[this.at].tabIndex = 0;
    this.cells[this.at].focus();
  }
}
