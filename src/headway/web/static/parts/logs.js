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
    root.append(h("div", { class: "row" }, h("h2", null, "Output"), h("span", { class: "space" }), h("label", null, this.follow, " follow")), this.text);
    this.abort = new AbortController();
    this.run();
  }

  async run() {
    while (!this.abort.signal.aborted) {
      try {
        if (await this.read()) return;
      } catch (error) {
        if (error.status) return this.add(this.size ? "" : `(${error.message})`);
      }
      if (this.abort.signal.aborted) return;
      await new Promise((done) => setTimeout(done, RETRY_MS));
      this.text.replaceChildren();
      this.size = 0;
    }
  }

  /** Read to the end; whether it was the end of the job. */
  async read() {
    let attempt = 0;
    const open = {}; // a rank whose last line has no end yet
    for await (const line of lines(`/v1/jobs/${this.job}/logs`, { follow: true, format: "json", tail: TAIL }, this.abort.signal)) {
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
