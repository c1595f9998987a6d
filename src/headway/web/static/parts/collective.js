// A collective plan as bars over time: a row per dimension of the network, the baseline above, the chosen plan below.

import { post } from "../api.js";
import { h, onWidth, s, show } from "../dom.js";

const ROW = 26;
const LEFT = 110;
const PHASES = { rs: ["reduce-scatter", "c1"], ag: ["all-gather", "c2"] };

export class Collective {
  /** What the fields begin with: a topology, and perhaps size (bytes), scheduler and chunks. */
  constructor(root, topology = "3D-SW_SW_SW_hetero", { size, scheduler = "themis", chunks = 8 } = {}) {
    this.topology = h("input", { id: "topology", value: topology, size: 38, spellcheck: "false" });
    this.size = h("input", { id: "size", value: size ? `${Math.round(size)}B` : "1GB", size: 12 });
    this.scheduler = h("select", { id: "scheduler" }, ["themis", "best"].map((name) => h("option", { value: name, selected: name === scheduler }, name)));
    this.chunks = h("select", { id: "chunks" }, [4, 8, 16, 32, 64].map((n) => h("option", { value: n, selected: n === chunks }, n)));
    this.button = h("button", { type: "submit", class: "primary" }, "Plan");
    this.status = h("p", { role: "status", class: "dim" });
    this.answer = h("div", { id: "plans" });
    root.append(h("section", { class: "card" },
      h("h2", null, "The plan of a collective"),
      h("form", { class: "row", onsubmit: (event) => this.ask(event) },
        h("label", { for: "topology" }, "All-reduce on"), this.topology, h("label", { for: "size" }, "of"), this.size,
        h("label", { for: "scheduler" }, "by"), this.scheduler, h("label", { for: "chunks" }, "in chunks"), this.chunks, this.button),
      h("p", { class: "dim" }, "A preset, or dimensions as kind:size:bandwidth:latency with commas between, such as switch:4:1200Gbps:700ns,switch:8:200Gbps:1700ns."),
      this.status, this.answer));
    this.ends = [];
  }

  async ask(event) {
    event.preventDefault();
    this.button.disabled = true;
    this.status.textContent = "Planning…";
    try {
      const found = await post("/v1/collective", { topology: this.topology.value, size: this.size.value, scheduler: this.scheduler.value, chunks: Number(this.chunks.value) });
      this.status.textContent = "";
      this.draw(found);
    } catch (error) {
      this.status.textContent = error.message;
    } finally {
      this.button.disabled = false;
    }
  }

  draw(found) {
    this.close();
    const longest = Math.max(...found.plans.map((each) => each.time_s));
    const faster = found.plans.length > 1 ? `${found.plans[1].scheduler} is ${(found.plans[0].time_s / found.plans[1].time_s).toFixed(2)} times as fast as ${found.plans[0].scheduler}.` : "";
    const parts = found.plans.map((plan) => {
      const box = h("div", { class: "plot gantt" });
      const words = `${plan.scheduler}: ${ms(plan.time_s)} with ${plan.chunks} chunks, ${(100 * plan.utilisation).toFixed(0)} % of the bandwidth used; no plan takes less than ${ms(plan.limit_s)}`;
      return [h("h3", null, words), box, { plan, box, words }];
    });
    show(this.answer, h("p", null, h("b", null, faster)), parts.map(([title, box]) => [title, box]),
      h("ul", { class: "legend wide" }, Object.values(PHASES).map(([name, className]) => h("li", { class: className }, name))));
    const boxes = [...this.answer.querySelectorAll(".gantt")];
    this.ends = parts.map(([, , { plan, words }], i) => onWidth(boxes[i], (width) => gantt(boxes[i], found, plan, words, longest, width)));
  }

  close() {
    for (const end of this.ends) end();
    this.ends = [];
  }
}

const ms = (seconds) => `${(1000 * seconds).toPrecision(3)} ms`;

function gantt(box, found, plan, words, longest, width) {
  const tall = ROW * found.dimensions.length + 18;
  const x = (time) => LEFT + ((width - LEFT - 4) * time) / longest;
  const rows = found.dimensions.flatMap((name, i) => [
    s("text", { class: "tick", x: LEFT - 6, y: i * ROW + 17, "text-anchor": "end" }, name),
    s("line", { class: "grid", x1: LEFT, x2: width, y1: (i + 1) * ROW, y2: (i + 1) * ROW })]);
  const bars = plan.bars.map((bar) => s("rect", {
    class: `part ${PHASES[bar.phase][1]}${bar.chunk % 2 ? " odd" : ""}`, x: x(bar.start_s), width: Math.max(0.6, x(bar.end_s) - x(bar.start_s) - 0.5), y: bar.dimension * ROW + 4, height: ROW - 8,
  }, s("title", null, `chunk ${bar.chunk}, ${PHASES[bar.phase][0]}, ${bar.sent_bytes.toLocaleString("en")} bytes, ${ms(bar.start_s)} to ${ms(bar.end_s)}`)));
  const ticks = [0, 0.5, 1].map((share) => s("text", { class: "tick", x: x(share * longest), y: tall - 4, "text-anchor": share === 0 ? "start" : share === 1 ? "end" : "middle" }, ms(share * longest)));
  box.replaceChildren(s("svg", { width, height: tall, role: "img", "aria-label": words }, rows, bars, ticks));
}
