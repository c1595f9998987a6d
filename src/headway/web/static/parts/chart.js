// Small charts in SVG: lines and bars over time, and shares of a whole.

import { h, onWidth, s, show } from "../dom.js";
import { moment } from "../format.js";

const LEFT = 44;
const BOTTOM = 20;
const TOP = 8;
const RIGHT = 8;

const BARS_OF = 4; // a bar for so many steps

/** Sums of neighbouring steps. */
function gathered(values) {
  const found = [];
  for (let i = 0; i < values.length; i += BARS_OF) found.push(values.slice(i, i + BARS_OF).reduce((a, b) => a + b, 0));
  return found;
}

/** A round number at or above a value. */
export function ceiling(value) {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 1.5, 2, 3, 4, 5, 6, 8, 10].find((each) => each * power >= value) * power;
}

/**
 * A chart over time; bars hold the sum of BAR_STEPS steps. `series`: [{name, kind: "area" | "line" | "bar", className, values}], one value per step of `trend`.
 * `text(value)` writes a value; `most` is the top of the axis where it is known.
 */
export const BAR_STEPS = BARS_OF;

export class OverTime {
  constructor(root, { title, height = 130, text = (value) => String(Math.round(value * 10) / 10), most = null, recording = null }) {
    Object.assign(this, { title, height, text, most, recording });
    this.legend = h("ul", { class: "legend" });
    this.box = h("div", { class: "plot" });
    this.tip = h("div", { class: "tip", "aria-hidden": "true" });
    root.append(h("figure", { class: "chart" }, h("figcaption", null, h("span", null, title), this.legend), this.box, this.tip));
    this.end = onWidth(this.box, () => this.draw());
    this.box.addEventListener("pointermove", (event) => this.point(event));
    this.box.addEventListener("pointerleave", () => this.tip.classList.remove("shown"));
  }

  update(trend, series) {
    this.trend = trend;
    this.series = series;
    show(this.legend, series.map((each) => h("li", { class: each.className }, each.name)));
    this.draw();
  }

  draw() {
    const width = this.box.clientWidth;
    if (!this.trend || !width) return;
    const { first, last } = this.trend;
    const inner = width - LEFT - RIGHT;
    const tall = this.height - TOP - BOTTOM;
    const top = this.most ?? ceiling(Math.max(1e-9, ...this.series.flatMap((each) => (each.kind === "bar" ? gathered(each.values) : each.values))));
    const steps = this.series[0].values.length;
    const x = (i) => LEFT + (inner * i) / steps;
    const y = (value) => TOP + tall * (1 - Math.min(1, value / top));
    const marks = [];
    for (const share of [0, 0.5, 1]) {
      marks.push(s("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: y(top * share), y2: y(top * share) }));
      marks.push(s("text", { class: "tick", x: LEFT - 6, y: y(top * share) + 4, "text-anchor": "end" }, this.text(top * share)));
    }
    for (const share of width < 420 ? [0, 1] : [0, 0.5, 1]) {
      const anchor = share === 0 ? "start" : share === 1 ? "end" : "middle";
      const words = moment(first + share * (last - first), this.recording);
      marks.push(s("text", { class: "tick", x: LEFT + share * inner, y: this.height - 4, "text-anchor": anchor }, words));
    }
    for (const each of this.series) marks.push(this.mark(each, x, y, inner / steps));
    const words = this.series.map((each) => `${each.name} ${this.text(each.values.at(-1) ?? 0)} now`).join(", ");
    const svg = s("svg", { width, height: this.height, role: "img", "aria-label": `${this.title} from ${moment(first, this.recording)} to ${moment(last, this.recording)}: ${words}` }, marks);
    this.box.replaceChildren(svg);
  }

  mark({ kind, className, values }, x, y, step) {
    if (kind === "bar") {
      values = gathered(values);
      step *= BARS_OF;
      const at = x;
      x = (i) => at(i * BARS_OF);
      const bars = values.map((value, i) => (value ? s("rect", { x: x(i), width: Math.max(1, step - 1), y: y(value), height: y(0) - y(value) }) : null));
      return s("g", { class: `bar ${className}` }, bars);
    }
    const line = values.map((value, i) => `${i ? "L" : "M"}${(x(i + 0.5)).toFixed(1)},${y(value).toFixed(1)}`).join("");
    const path = kind === "area" ? `${line}L${x(values.length - 0.5)},${y(0)}L${x(0.5)},${y(0)}Z` : line;
    const parts = [s("path", { class: `line ${className}`, d: line })];
    if (kind === "area") parts.unshift(s("path", { class: `area ${className}`, d: path }));
    return s("g", null, parts);
  }

  point(event) {
    if (!this.trend) return;
    const box = this.box.getBoundingClientRect();
    const steps = this.series[0].values.length;
    const i = Math.floor(((event.clientX - box.left - LEFT) / (box.width - LEFT - RIGHT)) * steps);
    if (i < 0 || i >= steps) return this.tip.classList.remove("shown");
    const at = moment(this.trend.first + (i + 0.5) * this.trend.step_s, this.recording);
    this.tip.textContent = `${at} · ${this.series.map((each) => `${each.name} ${this.text(each.kind === "bar" ? gathered(each.values)[Math.floor(i / BARS_OF)] : each.values[i])}`).join(" · ")}`;
    this.tip.style.setProperty("--x", `${Math.min(box.width - 150, Math.max(0, event.clientX - box.left - 60))}px`);
    this.tip.classList.add("shown");
  }
}

/** Parts of a whole as one bar with a legend: [{name, value, className}]. */
export function shares(parts, text, label) {
  const whole = parts.reduce((sum, each) => sum + each.value, 0);
  const share = (each) => (whole ? (100 * each.value) / whole : 0);
  const said = parts.map((each) => `${each.name} ${text(each.value)}`).join(", ");
  return h("div", { class: "shares" },
    h("div", { class: "stack", role: "img", "aria-label": `${label}: ${said || "nothing"}` },
      parts.map((each) => h("span", { class: each.className, css: { width: `${share(each)}%` }, title: `${each.name}: ${text(each.value)}` }))),
    h("ul", { class: "legend wide" }, parts.map((each) => h("li", { class: each.className }, `${each.name} `, h("b", null, text(each.value))))));
}
