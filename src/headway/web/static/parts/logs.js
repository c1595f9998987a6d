// What a job writes, as it writes it.

import { lines } from "../api.js";
import { h } from "../dom.js";

const MOST_CHARACTERS = 400_000; // kept in the page
const TAIL = 400; // lines from before
const RETRY_MS = 1500;
const NEAR_PX = 40;

export class Logs {
  constructor(root, job) {
    this.job = job;
    this.size = 0;
    this.text = h("pre", { class: "log", tabindex: "0", role: "log", "aria-label": "Output of the job" });
    this.follow = h("input", { type: "checkbox", checked: true });
    this.attempt = h("select", { "aria-label": "Attempt", hidden: true, onchange: () => this.restart() }, h("option", { value: "" }, "this attempt"));
    root.append(h("div", { class: "row" }, h("h2", null, "Output"), h("span", { class: "space" }), this.attempt, h("label", null, this.follow, " follow")), this.text);
    this.restart();
  }

  /** Offer the attempts before the present one. */
  offer(attempts) {
    const before = Math.max(0, attempts - 1);
    if (this.attempt.options.length - 1 >= before) return;
    for (let n = this.attempt.options.length; n <= before; n++) this.attempt.append(h("option", { value: n }, `attempt ${n}`));
    this.attempt.hidden = false;
  }

  restart() {
    this.abort?.abort();
    this.abort = new AbortController();
    this.text.replaceChildren();
    this.size = 0;
    this.run(this.abort.signal);
  }

  async run(signal) {
    while (!signal.aborted) {
      try {
        if (await this.read(signal)) return;
      } catch (error) {
        if (signal.aborted) return;
        if (error.status) return this.add(this.size ? "" : `(${error.message})`);
      }
      if (signal.aborted) return;
      await new Promise((done) => setTimeout(done, RETRY_MS));
      if (signal.aborted) return;
      this.text.replaceChildren();
      this.size = 0;
    }
  }

  /** Read to the end; whether it was the end of the job. */
  async read(signal) {
    let attempt = 0;
    const open = {}; // a rank whose last line has no end yet
    const wanted = this.attempt.value ? { attempt: this.attempt.value } : { follow: true };
    for await (const line of lines(`/v1/jobs/${this.job}/logs`, { ...wanted, format: "json", tail: TAIL }, signal)) {
      if (!line) continue;
      const part = JSON.parse(line);
      if (part.done) {
        if (!this.size) this.add("(nothing was written)");
        return true;
      }
      if (attempt && part.attempt !== attempt) this.add(`\n--- attempt ${part.attempt} ---\n`);
      attempt = part.attempt;
      this.add(part.ranks > 1 ? labelled(part, open) : part.text);
    }
    return false;
  }

  add(text) {
    if (!text) return;
    const stay = this.text.scrollHeight - this.text.scrollTop - this.text.clientHeight < NEAR_PX;
    this.text.append(text);
    this.size += text.length;
    while (this.size > MOST_CHARACTERS && this.text.childNodes.length > 1) {
      this.size -= this.text.firstChild.textContent.length;
      this.text.firstChild.remove();
    }
    if (this.follow.checked && stay) this.text.scrollTop = this.text.scrollHeight;
  }

  close() {
    this.abort.abort();
  }
}

/** Each line begins with its rank. */
function labelled(part, open) {
  let text = "";
  for (const piece of part.text.split(/(?<=\n)/)) {
    if (!piece) continue;
    text += open[part.rank] ? piece : `[${part.rank}] ${piece}`;
    open[part.rank] = !piece.endsWith("\n");
  }
  return text;
}
