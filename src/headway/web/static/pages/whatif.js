// What would have been: the jobs of the last hours under another policy, as two distributions of completion times.

import { get, post } from "../api.js";
import { h, onWidth, s, show } from "../dom.js";
import { count, span } from "../format.js";
import { table } from "../parts/jobs.js";

const RANGES = [[3600, "last hour"], [21600, "last 6 hours"], [86400, "last day"], [604800, "last week"]];
const TALL = 300;
const [LEFT, RIGHT, TOP, BOTTOM] = [44, 12, 10, 36];
const LINES = ["c1", "c2", "c3", "c5", "c6"];

export async function open(root, ctx) {
  const { policies } = await get("/v1/policies");
  const own = ctx.first.policy;
  const policy = h("select", { id: "policy" }, policies.map((each) =>
    h("option", { value: each.name, selected: each.name === "fifo", title: each.summary }, each.oracle ? `${each.name} (knows the work left)` : each.name)));
  const last = h("select", { id: "last" }, RANGES.map(([value, words]) => h("option", { value, selected: value === 86400 }, words)));
  const button = h("button", { type: "submit", class: "primary" }, "Replay");
  const status = h("p", { role: "status", class: "dim" });
  const answer = h("div", { class: "answer" });
  let end = () => {};
  const ask = async (event) => {
    event.preventDefault();
    button.disabled = true;
    status.textContent = "Simulating: this takes a few seconds, and half a minute the first time on a machine.";
    try {
      const found = await post("/v1/replay", { policies: [policy.value], last_s: Number(last.value) });
      status.textContent = "";
      end();
      end = draw(answer, found, own);
    } catch (error) {
      status.textContent = error.message;
    } finally {
      button.disabled = false;
    }
  };
  root.append(
    h("h1", null, "What if?"),
    h("form", { class: "card row", onsubmit: ask },
      h("label", { for: "last" }, "The jobs of the"), last, h("label", { for: "policy" }, "under"), policy, button,
      h("span", { class: "dim" }, `measured under ${own}`)),
    status, answer);
  return { close: () => end() };
}

/** Two distributions, the numbers behind them, and what to know before believing them. */
function draw(root, found, own) {
  const outcomes = [{ ...found.measured, label: `measured, under ${own}` }, ...found.simulated.map((each) => ({ ...each, label: `${each.name}, by replay` }))];
  const box = h("div", { class: "plot" });
  const legend = h("ul", { class: "legend wide" }, outcomes.map((each, i) => h("li", { class: LINES[i % LINES.length] }, each.label)));
  const rows = outcomes.map((each) => h("tr", null, h("td", null, each.label),
    [each.mean_s, each.median_s, each.p95_s, each.makespan_s].map((value) => h("td", { class: "number" }, span(value))),
    h("td", { class: "number" }, each.preemptions ?? "–")));
  const other = found.simulated.at(-1);
  const ratio = other.mean_s / found.measured.mean_s;
  const verdict = other.name === own ? "The replay of what was measured shows how far to trust it."
    : `Under ${other.name} the mean completion time would have been ${ratio >= 1 ? `${ratio.toFixed(2)} times as long` : `${((1 - ratio) * 100).toFixed(0)} % shorter`}.`;
  const own_s = found.simulated.find((each) => each.name === own)?.mean_s;
  const error = own_s === undefined ? null : `The replay of ${own} itself is ${(100 * (own_s / found.measured.mean_s - 1)).toFixed(1)} % off what was measured.`;
  show(root,
    h("section", { class: "card" },
      h("h2", null, `Completion times of ${count(found.averaged, "job")}`), h("p", null, h("b", null, verdict)), error ? h("p", { class: "dim" }, error) : null,
      box, legend,
      table(["", "mean", "median", "p95", "all done", "preemptions"], rows, "Completion times by policy"),
      h("h3", null, "Before believing it"), h("ul", { class: "dim" }, found.caveats.map((line) => h("li", null, line)))));
  return onWidth(root.querySelector(".plot"), (width) => plot(root.querySelector(".plot"), outcomes, width));
}

/** The share of jobs that were done within a time; time is logarithmic, because jobs differ by orders of magnitude. */
function plot(box, outcomes, width) {
  const every = outcomes.flatMap((each) => each.percentiles_s).filter((value) => value > 0);
  const low = Math.log10(Math.max(0.01, Math.min(...every)));
  const high = Math.max(low + 0.1, Math.log10(Math.max(...every)));
  const x = (seconds) => LEFT + ((width - LEFT - RIGHT) * (Math.log10(Math.max(10 ** low, seconds)) - low)) / (high - low);
  const y = (share) => TOP + (TALL - TOP - BOTTOM) * (1 - share);
  const marks = [0, 0.25, 0.5, 0.75, 1].flatMap((share) => [
    s("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: y(share), y2: y(share) }),
    s("text", { class: "tick", x: LEFT - 6, y: y(share) + 4, "text-anchor": "end" }, `${100 * share}%`)]);
  const ticks = width < 500 ? 3 : 6;
  for (let i = 0; i <= ticks; i++) {
    const seconds = 10 ** (low + ((high - low) * i) / ticks);
    marks.push(s("text", { class: "tick", x: x(seconds), y: TALL - 18, "text-anchor": i === 0 ? "start" : i === ticks ? "end" : "middle" }, span(seconds)));
  }
  marks.push(s("text", { class: "tick", x: width / 2, y: TALL - 2, "text-anchor": "middle" }, "completion time (logarithmic): share of jobs done within it"));
  const lines = outcomes.map((each, i) => s("path", { class: `line ${LINES[i % LINES.length]}`, d: each.percentiles_s.map((value, p) => `${p ? "L" : "M"}${x(value).toFixed(1)},${y(p / 100).toFixed(1)}`).join("") }));
  const said = outcomes.map((each) => `${each.label}: median ${span(each.median_s)}, 95 % within ${span(each.p95_s)}`).join("; ");
  box.replaceChildren(s("svg", { width, height: TALL, role: "img", "aria-label": `Distributions of completion times. ${said}` }, marks, lines));
}
