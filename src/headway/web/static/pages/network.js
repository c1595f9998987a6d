// The network: leaves and spines with each job's links in its colour, contended links marked, and circuits.

import { get } from "../api.js";
import { h, onWidth, s, show } from "../dom.js";
import { colours, count } from "../format.js";
import { link as jobLink, table } from "../parts/jobs.js";

const TALL = 262;
const [SPINE_Y, LEAF_Y] = [30, 226];
const CELL_TALL = 15;
const APART = 3; // between the lines of jobs that share a link
const MOST_FREE = 256; // links that nobody uses are drawn up to here; more cannot be told apart
const ROWS = 60;

export async function open(root, ctx) {
  const view = new Network(root, ctx);
  await view.update();
  return view;
}

const says = ({ leaf, spine, jobs, load }) =>
  `leaf ${leaf}, uplink ${spine}: ${jobs.map((job) => (job ? `job ${job}` : "somebody else's job")).join(", ")}${load > 1 ? `, ${load} flows at once` : ""}`;

class Network {
  constructor(root, ctx) {
    this.ctx = ctx;
    this.words = h("p", { id: "sharing" });
    this.box = h("div", { class: "plot fabric" });
    this.only = h("select", { "aria-label": "Job to show", onchange: () => this.draw() }, h("option", { value: "" }, "all jobs"));
    this.lists = h("div");
    this.picture = h("section", { class: "card" }, h("div", { class: "row" }, h("h2", null, "Switches and links"), h("span", { class: "space" }), this.only), this.words, this.box);
    root.append(h("h1", null, "Network"), this.picture, this.lists);
    this.end = onWidth(this.box, () => this.draw());
  }

  async update() {
    this.net = await get("/v1/network");
    this.optical = this.net.kind.includes("optical");
    const known = this.net.kind !== "none";
    const contended = this.net.links.filter((each) => each.load > 1).length;
    show(this.words, known
      ? [`${this.net.name}: ${count(this.net.leaves.length, "leaf", "leaves")}, ${count(this.net.spines, this.optical ? "optical switch" : "uplink", this.optical ? "optical switches" : "uplinks")} each; ${this.net.sharing}. Leaves are below, ${this.optical ? "optical switches" : "spines"} above; then every uplink as a cell. `,
        // A manager knows who has links of their own; how others share the rest only a simulation works out.
        this.ctx.recording ? h("b", null, contended ? `${count(contended, "link")} contended.` : "No link is contended.") : null]
      : `The switches of ${this.net.name} are not known here, so there is nothing to draw: ${this.net.sharing}. A manager or a simulation with --fabric has them.`);
    this.box.hidden = this.only.hidden = !known;
    this.choose();
    this.draw();
    this.drawLists();
  }

  choose() {
    const ids = this.net.jobs.map((job) => String(job.job_id));
    const had = [...this.only.options].slice(1).map((option) => option.value);
    if (had.join() === ids.join()) return;
    const chosen = this.only.value;
    this.only.replaceChildren(h("option", { value: "" }, "all jobs"), ...this.net.jobs.map((job) => h("option", { value: job.job_id }, `${job.job_id} ${job.name}`)));
    this.only.value = ids.includes(chosen) ? chosen : "";
  }

  draw() {
    const width = this.box.clientWidth;
    if (!width || !this.net || this.net.kind === "none") return;
    const { leaves, spines, links, circuits } = this.net;
    const only = Number(this.only.value) || null;
    const x = (i, of) => (width * (i + 0.5)) / of;
    const lines = [];
    if (leaves.length * spines <= MOST_FREE)
      for (let leaf = 0; leaf < leaves.length; leaf++) for (let spine = 0; spine < spines; spine++)
        lines.push(s("line", { class: "wire", x1: x(leaf, leaves.length), y1: LEAF_Y, x2: x(spine, spines), y2: SPINE_Y }));
    const shown = links.filter((each) => !only || each.jobs.includes(only));
    for (const each of shown.filter((one) => one.load > 1))
      lines.push(s("line", { class: "wire hot", x1: x(each.leaf, leaves.length), y1: LEAF_Y, x2: x(each.spine, spines), y2: SPINE_Y, "stroke-width": 5 + APART * (only ? 0 : each.jobs.length - 1) }));
    for (const each of shown) {
      const users = only ? [only] : each.jobs;
      users.forEach((job, k) => {
        const aside = (k - (users.length - 1) / 2) * APART;
        lines.push(s("line", { class: "wire used", css: colours(job), x1: x(each.leaf, leaves.length) + aside, y1: LEAF_Y, x2: x(each.spine, spines) + aside, y2: SPINE_Y }, s("title", null, says(each))));
      });
    }
    for (const each of circuits) {
      if (only && each.job_id !== only) continue;
      const words = `optical switch ${each.switch}: leaf ${each.leaf} to spine ${each.spine}, job ${each.job_id}`;
      lines.push(s("line", { class: "wire used", css: colours(each.job_id), x1: x(each.leaf, leaves.length), y1: LEAF_Y, x2: x(each.switch, spines), y2: SPINE_Y }, s("title", null, words)));
    }
    const top = this.optical ? "OCS" : "spine";
    const box = (cx, y, name, title, wide) => s("g", null, s("rect", { class: "switch", x: cx - wide / 2, y: y - 9, width: wide, height: 18, rx: 3 }), s("title", null, title), s("text", { class: "tick", x: cx, y: y + (y < 100 ? -14 : 24), "text-anchor": "middle" }, name));
    const fits = (n) => Math.max(2, Math.min(22, width / n - 4));
    const every = (n) => Math.max(1, Math.ceil((n * 34) / width));
    const switches = [
      ...Array.from({ length: spines }, (_, i) => box(x(i, spines), SPINE_Y, i % every(spines) ? "" : i, `${top} ${i}`, fits(spines))),
      ...leaves.map((nodes, i) => box(x(i, leaves.length), LEAF_Y, i % every(leaves.length) ? "" : i, `leaf ${i}: ${nodes.join(", ")}`, fits(leaves.length))),
    ];
    const said = `${top}s above, leaves below. ${count(links.length + circuits.length, "link")} in use by ${count(this.net.jobs.length, "job")}, ${links.filter((each) => each.load > 1).length} contended.`;
    this.box.style.setProperty("--wire", links.length + circuits.length > 200 ? "1" : "2");
    this.box.replaceChildren(s("svg", { width, height: TALL, role: "img", "aria-label": said }, lines, switches), this.matrix(width, only));
  }

  /** The same as a table of cells, in which no line hides another: a row per leaf, a column per uplink. */
  matrix(width, only) {
    const { leaves, spines, links, circuits } = this.net;
    const left = 54;
    const wide = Math.min(40, (width - left) / spines);
    const tall = CELL_TALL - 2;
    const at = (leaf, column) => ({ x: left + column * wide, y: leaf * CELL_TALL });
    const cell = ({ leaf, spine, jobs, load }) => {
      const users = only ? [only] : jobs;
      const part = Math.max(0.5, (wide - 2) / users.length);
      const { x, y } = at(leaf, spine);
      return s("g", null, s("title", null, says({ leaf, spine, jobs, load })),
        users.map((job, k) => s("rect", { class: "cell used", css: colours(job), x: x + k * part, y, width: part, height: tall })),
        load > 1 ? s("rect", { class: "cell hot", x, y: y + tall - 3, width: Math.max(1, wide - 2), height: 3 }) : null);
    };
    const used = [...links, ...circuits.map((each) => ({ leaf: each.leaf, spine: each.switch, jobs: [each.job_id], load: 1 }))];
    const cells = used.filter((each) => !only || each.jobs.includes(only)).map(cell);
    const free = leaves.length * spines <= 20 * MOST_FREE ? leaves.flatMap((_, leaf) => Array.from({ length: spines }, (_, column) => s("rect", { class: "cell", ...at(leaf, column), width: Math.max(1, wide - 2), height: tall }))) : [];
    const names = leaves.map((_, leaf) => s("text", { class: "tick", x: left - 6, y: leaf * CELL_TALL + 11, "text-anchor": "end" }, `leaf ${leaf}`));
    return s("svg", { class: "matrix", width, height: leaves.length * CELL_TALL + 2, role: "img", "aria-label": "Uplinks of every leaf, by job; the table below lists them" }, names, free, cells);
  }

  drawLists() {
    const { links, circuits, jobs } = this.net;
    const byJob = new Map(jobs.map((job) => [job.job_id, { job, links: [], hot: 0 }]));
    for (const each of links) for (const id of each.jobs) {
      const row = byJob.get(id);
      if (!row) continue;
      row.links.push(`leaf${each.leaf}-spine${each.spine}`);
      row.hot += each.load > 1 ? 1 : 0;
    }
    for (const each of circuits) byJob.get(each.job_id)?.links.push(`leaf${each.leaf}-ocs${each.switch}-spine${each.spine}`);
    const rows = [...byJob.values()].filter((each) => each.links.length).slice(0, ROWS).map(({ job, links: names, hot }) =>
      h("tr", null, h("td", null, jobLink(job)), h("td", { class: "number" }, job.gpus), h("td", { class: "number" }, names.length), h("td", { class: hot ? "problem number" : "number" }, hot || "–"),
        h("td", null, names.slice(0, 6).join(", "), names.length > 6 ? ", …" : "")));
    if (!rows.length) return show(this.lists);
    show(this.lists, h("section", { class: "card" }, h("h2", null, this.optical ? "Circuits of each job" : "Links of each job"),
      table(["job", "GPUs", "links", "contended", "which"], rows, "Links of each job")));
  }

  close() {
    this.end();
  }
}
