// Ask again before something is lost.

import { h } from "../dom.js";

/** True once the person has said yes. Escape and the first button say no. */
export function confirmed(title, words, yes) {
  return new Promise((answer) => {
    const close = (said) => {
      box.close();
      box.remove();
      answer(said);
    };
    const box = h("dialog", { "aria-labelledby": "ask-title", oncancel: () => close(false) },
      h("h2", { id: "ask-title" }, title), words.map((line) => h("p", null, line)),
      h("div", { class: "row" }, h("span", { class: "space" }),
        h("button", { type: "button", autofocus: true, onclick: () => close(false) }, "No, leave it"),
        h("button", { type: "button", class: "danger", onclick: () => close(true) }, yes)));
    document.body.append(box);
    box.showModal();
  });
}
