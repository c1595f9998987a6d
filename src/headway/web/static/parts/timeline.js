// The life of a job as one line of time: when it waited, started, ran and stopped, with what happened in between.

import { h, onWidth, s } from "../dom.js";
import { moment, span } from "../format.js";

const TALL = 64;
const BAR = [10, 26]; // from the top, and how tall
const PARTS = { waiting: "c2", starting: "c8", running: "c3", stopping: "c4" };
const MARKED = { preempted: "▼", checkpoint: "◆", ended: "■", submitted: "●" };

export class Timeline {
  constructor(root, recording) {
    this.recording = recording;
    this.box = h("div", { class: "plot timeline" });
    root.append(this.box, h("ul", { class: "legend" },
      Object.entries(PARTS).map(([name, className]) => h("li", { class: className }, name)),
      Object.entries({ "▼": "preempted", "◆": "checkpoint" }).map(([sign, words]) => h("li", { class: "sign" }, `${sign} ${words}`))));
    this.end = onWidth(this.box, () => this.draw());
  }

  update(story) {
    this.story = story;
    this.draw();
  }

  draw() {
    const width = this.box.clientWidth;
    if (!width || !this.story?.phases.length) return;
    const { phases, marks, now } = this.story;
    const first = phases[0].since;
    const last = Math.max(first + 0.001, phases.at(-1).until ?? now);
    const x = (time) => ((width - 2) * (Math.min(last, Math.max(first, time)) - first)) / (last - first) + 1;
    const bars = phases.map((phase) => {
      const [from, to] = [x(phase.since), x(phase.until ?? last)];
      const where = Object.entries(phase.nodes).map(([node, gpus]) => `${node} × ${gpus}`).join(", ");
      const words = `${phase.kind} for ${span((phase.until ?? last) - phase.since)} from ${moment(phase.since, this.recording)}${where ? ` on ${where}` : ""}${phase.why ? ` (${phase.why})` : ""}`;
      return s("rect", { class: `part ${PARTS[phase.kind]}`, x: from, width: Math.max(1.5, to - from), y: BAR[0], height: BAR[1] }, s("title", null, words));
    });
    const signs = marks.filter((mark) => MARKED[mark.kind]).map((mark) =>
      s("text", { class: "tick sign", x: Math.min(width - 6, Math.max(6, x(mark.time))), y: BAR[0] + BAR[1] + 12, "text-anchor": "middle" }, MARKED[mark.kind], s("title", null, `${mark.words}, ${moment(mark.time, this.recording)}`)));
    const ticks = [[first, "start"], [last, "end"]].map(([time, anchor]) =>
      s("text", { class: "tick", x: anchor === "start" ? 1 : width - 1, y: TALL - 2, "text-anchor": anchor }, moment(time, this.recording)));
    const total = (kind) => phases.filter((each) => each.kind === kind).reduce((sum, each) => sum + (each.until ?? last) - each.since, 0);
    const label = `Timeline: ${Object.keys(PARTS).map((kind) => `${kind} ${span(total(kind))}`).join(", ")}`;
    this.box.replaceChildren(s("svg", { width, height: TALL, role: "img", "aria-label": label }, bars, signs, ticks));
  }
}
