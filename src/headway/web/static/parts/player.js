// Play, pause and drag through a recorded run.

import { clock } from "../api.js";
import { h } from "../dom.js";
import { span } from "../format.js";

const FRAME_MS = 250;
const WHOLE_RUN_S = 60; // at speed 1 a run takes a minute to watch
const SPEEDS = [0.25, 0.5, 1, 2, 4];
const STEPS = 10000;

export function player(ctx, update) {
  const { first, last, title } = ctx.recording;
  const length = last - first;
  let timer = 0;
  let busy = false;
  const label = h("output", { for: "time", class: "time" });
  const slider = h("input", { id: "time", type: "range", min: 0, max: STEPS, step: 1, value: 0, "aria-label": "Time in the run" });
  const speed = h("select", { "aria-label": "Speed" }, SPEEDS.map((each) => h("option", { value: each, selected: each === 1 }, `${each}×`)));
  const button = h("button", { type: "button", class: "primary play" });

  const draw = () => {
    slider.value = Math.round((STEPS * (clock.at - first)) / length);
    label.textContent = `${span(clock.at - first)} of ${span(length)}`;
    slider.setAttribute("aria-valuetext", label.textContent);
    button.textContent = timer ? "❚❚ Pause" : "▶ Play";
  };
  const to = async (time) => {
    clock.at = Math.min(last, Math.max(first, time));
    draw();
    if (busy) return;
    busy = true;
    let asked;
    do {
      asked = clock.at;
      await update();
    } while (asked !== clock.at && !timer);
    busy = false;
  };
  const stop = () => {
    clearInterval(timer);
    timer = 0;
    draw();
  };
  const play = () => {
    if (clock.at >= last) clock.at = first;
    const step = () => {
      if (clock.at >= last) return stop();
      to(clock.at + (length / WHOLE_RUN_S) * (FRAME_MS / 1000) * Number(speed.value));
    };
    timer = setInterval(step, FRAME_MS);
    step();
    draw();
  };
  button.addEventListener("click", () => (timer ? stop() : play()));
  slider.addEventListener("input", () => to(first + (length * Number(slider.value)) / STEPS));
  draw();
  return h("section", { class: "player", "aria-label": "Recorded run" }, button, slider, label, speed, h("span", { class: "dim title" }, title));
}
