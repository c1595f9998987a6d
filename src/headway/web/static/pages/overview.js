// The first screen: is the cluster healthy, what runs where, who waits and why, is it getting better or worse.

import { get } from "../api.js";
import { h, show } from "../dom.js";
import { count, moment, percent, span, why, whyIdle } from "../format.js";
import { BAR_STEPS, OverTime } from "../parts/chart.js";
import { GpuMap } from "../parts/gpumap.js";
import { link, progress, state, table } from "../parts/jobs.js";

const RANGES = [[900, "15 min"], [3600, "1 h"], [21600, "6 h"], [86400, "24 h"]];
const STEPS = 96;
const SHOWN = 8; // waiting jobs and events
const TREND_MS = 2000;
export async function open(root, ctx) {
  const view = new Overview(root, ctx);
  await view.update();
  return view;
}

class Overview {
  constructor(root, ctx) {
    this.ctx = ctx;
    this.names = new Map();
    this.range = Number(sessionStorage.getItem("headway-range")) || 3600;
    this.health = h("section", { class: "health", role: "status", "aria-label": "Health" });
    this.tiles = h("section", { class: "tiles", "aria-label": "Numbers" });
    this.waiting = h("div", { id: "waiting" });
    this.running = h("div", { id: "running" });
    this.news = h("ol", { class: "news" });
    const map = h("section", { class: "card map" }, h("h2", null, "What runs where"));
    const charts = h("div", { class: "charts" });
    root.append(
      h("h1", { class: "hidden" }, "Overview"),
      this.health, this.tiles,
      h("div", { class: "columns" },
        h("div", null, map, h("section", { class: "card" }, h("h2", null, "Running"), this.running)),
        h("div", null,
          h("section", { class: "card" }, h("h2", null, "Who waits, and why"), this.waiting),
          ctx.recording ? null : h("section", { class: "card" }, h("h2", null, "What just happened"), this.news))),
      h("section", { class: "card" },
        h("div", { class: "row" }, h("h2", null, "Better or worse?"), h("span", { class: "space" }), ctx.recording ? null : this.ranges()),
        charts),
    );
    this.map = new GpuMap(map, { onOpen: (job) => (location.hash = `#/job/${job}`) });
    const recording = ctx.recording;
    this.charts = {
      use: new OverTime(charts, { title: "GPUs in use", text: percent, most: 1, recording }),
      jobs: new OverTime(charts, { title: "Jobs", recording }),
      done: new OverTime(charts, { title: "Jobs ended", recording }),
    };
  }

  ranges() {
    const pick = (seconds) => {
      this.range = seconds;
      sessionStorage.setItem("headway-range", seconds);
      for (const each of buttons) each.setAttribute("aria-pressed", String(Number(each.value) === seconds));
      this.trendAt = 0;
      this.ctx.soon();
    };
    const buttons = RANGES.map(([seconds, words]) =>
      h("button", { type: "button", class: "quiet", value: seconds, "aria-pressed": String(seconds === this.range), onclick: () => pick(seconds) }, words));
    return h("div", { class: "group", role: "group", "aria-label": "Time shown" }, buttons);
  }

  async update() {
    const due = this.ctx.recording || Date.now() - (this.trendAt ?? 0) > TREND_MS;
    const [now, trend] = await Promise.all([
      get("/v1/overview"),
      due ? get("/v1/trend", this.ctx.recording ? { steps: STEPS } : { last_s: this.range, steps: STEPS }) : this.trend,
    ]);
    if (due) this.trendAt = Date.now();
    this.trend = trend;
    for (const job of [...now.jobs, ...now.waiting]) this.names.set(job.job_id, job.name);
    this.map.update(now);
    this.drawHealth(now, trend);
    this.drawTiles(now, trend);
    this.drawWaiting(now);
    this.drawRunning(now);
    this.drawNews();
    if (!due) return;
    this.charts.use.update(trend, [{ name: "in use", kind: "area", className: "c1", values: trend.utilisation }]);
    this.charts.jobs.update(trend, [
      { name: "running", kind: "line", className: "c1", values: trend.running },
      { name: "waiting", kind: "line", className: "c2", values: trend.waiting },
    ]);
    const bad = trend.failed.some(Boolean);
    this.charts.done.update(trend, [
      { name: `completed per ${span(trend.step_s * BAR_STEPS)}`, kind: "bar", className: "c3", values: trend.completed },
      ...(bad ? [{ name: "failed or cancelled", kind: "bar", className: "c4", values: trend.failed }] : []),
    ]);
  }

  drawHealth(now, trend) {
    const [level, title, lines] = health(now, trend);
    this.health.dataset.level = level;
    show(this.health, h("strong", null, title), lines.map((line) => h("span", null, line)));
  }

  drawTiles(now, trend) {
    const waits = now.counts.PENDING;
    const perHour = (3600 * sum(trend.completed)) / Math.max(1, trend.last - trend.first);
    const tiles = [
      ["GPUs in use", percent(now.gpus ? now.gpus_busy / now.gpus : 0), `${now.gpus_busy} of ${count(now.gpus, "GPU")}`],
      ["Running", count(now.counts.RUNNING + now.counts.STARTING + now.counts.STOPPING, "job"), `under ${now.policy}`],
      ["Waiting", count(waits, "job"), waits ? `longest ${span(now.longest_wait_s)}${now.counts.HELD ? `, ${now.counts.HELD} held` : ""}` : "nobody"],
      ["Completed", count(now.counts.COMPLETED, "job"), `${perHour >= 10 ? Math.round(perHour) : perHour.toFixed(1)} per hour${now.counts.FAILED ? `, ${now.counts.FAILED} failed` : ""}`],
    ];
    show(this.tiles, tiles.map(([name, value, more]) =>
      h("div", { class: "tile card" }, h("span", { class: "dim" }, name), h("b", null, value), h("span", { class: "dim" }, more))));
  }

  drawWaiting(now) {
    if (!now.waiting.length) return show(this.waiting, h("p", { class: "dim" }, "Nobody waits."));
    const all = Object.values(now.reasons).reduce((a, b) => a + b, 0);
    const bars = Object.entries(now.reasons).slice(0, 5).map(([reason, jobs]) =>
      h("li", null, h("span", { class: "amount", css: { "--share": `${(100 * jobs) / all}%` } }, why(reason)), h("b", null, jobs.toLocaleString("en"))));
    const rows = now.waiting.slice(0, SHOWN).map((job) =>
      h("tr", null, h("td", null, link(job)), h("td", { class: "number" }, job.gpus), h("td", { class: "number" }, span(now.now - job.submitted_at)), h("td", null, why(job.reason))));
    show(this.waiting,
      h("ul", { class: "reasons" }, bars),
      table([this.ctx.recording ? "job" : "next in line", "GPUs", "for", "why"], rows, this.ctx.recording ? "Jobs that wait, by level and submission" : "Jobs that wait, in the policy's order"),
      all > SHOWN ? h("p", null, h("a", { href: "#/queue" }, `all ${all.toLocaleString("en")} in the queue`)) : null);
  }

  drawRunning(now) {
    if (!now.jobs.length) return show(this.running, h("p", { class: "dim" }, "Nothing runs."));
    const rows = now.jobs.slice(0, 12).map((job) =>
      h("tr", null, h("td", null, link(job)), h("td", null, state(job.state)), h("td", { class: "number" }, job.gpus),
        h("td", { class: "number" }, span(now.now - (job.started_at ?? now.now))), h("td", null, progress(job))));
    show(this.running, table(["job", "state", "GPUs", "for", "progress"], rows, "Running jobs"),
      now.jobs.length > 12 ? h("p", null, h("a", { href: "#/queue" }, `and ${now.jobs.length - 12} more`)) : null);
  }

  drawNews() {
    // Of jobs, what changes their state; of nodes, what has a message.
    const found = this.ctx.ctx.news.filter((event) => event.message && (event.state || !event.job_id)).slice(-SHOWN).reverse();
    if (!found.length) return show(this.news, h("li", { class: "dim" }, "Nothing since this page was opened."));
    show(this.news, found.map((event) => {
      const who = event.job_id
        ? h("a", { href: `#/job/${event.job_id}` }, `${event.job_id} ${this.names.get(event.job_id) ?? ""}`.trim())
        : String(event.data.node ?? "");
      return h("li", null, h("time", { class: "dim" }, moment(event.time)), " ", who, ` ${event.message}`);
    }));
  }

  close() {
    for (const chart of Object.values(this.charts)) chart.end();
  }
}

const sum = (values) => values.reduce((a, b) => a + b, 0);

/** A word, a sentence and what is behind it. */
export function health(now, trend) {
  const closed = now.nodes.filter((node) => node.state !== "open");
  const ended = sum(trend.completed) + sum(trend.failed);
  const idle = now.gpus - now.gpus_busy;
  const waits = now.counts.PENDING;
  const facts = [`${now.gpus_busy} of ${count(now.gpus, "GPU")} in use`, `${count(waits, "job")} waiting`, direction(trend)];
  const top = Object.keys(now.reasons)[0];
  if (waits && idle && top) facts.splice(2, 0, `${count(idle, "GPU")} idle: ${whyIdle(top)}`);
  if (now.trouble) return ["bad", "In trouble", [now.trouble, ...facts]];
  if (closed.length === now.nodes.length) return ["bad", "No node takes jobs", facts];
  if (closed.length) {
    const names = closed.slice(0, 3).map((node) => `${node.name} ${node.state}`).join(", ");
    return ["warn", `${count(closed.length, "node")} of ${now.nodes.length} out of use`, [names + (closed.length > 3 ? ", …" : ""), ...facts]];
  }
  if (ended >= 5 && sum(trend.failed) > ended / 2) return ["warn", "Most jobs fail or are cancelled", [`${sum(trend.failed)} of the last ${ended}`, ...facts]];
  return ["good", waits && !idle ? "Healthy and full" : "Healthy", facts];
}

/** Whether the queue grows: the last quarter of the time shown against the first. */
function direction(trend) {
  const quarter = Math.max(1, Math.floor(trend.waiting.length / 4));
  const mean = (values) => sum(values) / values.length;
  const [before, after] = [mean(trend.waiting.slice(0, quarter)), mean(trend.waiting.slice(-quarter))];
  const say = (value) => (value < 10 ? value.toFixed(1).replace(/\.0$/, "") : Math.round(value));
  if (Math.abs(after - before) < Math.max(0.5, 0.1 * before)) return "the queue is steady";
  return after > before ? `the queue grows: ${say(before)} to ${say(after)} waiting` : `the queue shrinks: ${say(before)} to ${say(after)} waiting`;
}
