// Elements from data: text goes in as text, so nothing that a user typed can become markup.

const SVG = "http://www.w3.org/2000/svg";

// Characters that turn the direction of what follows: a name could read as another one.
const TURNS = /[\u202a-\u202e\u2066-\u2069]/g;
const plain = (text) => String(text).replace(TURNS, "\ufffd");

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "css") for (const [key, v] of Object.entries(value)) element.style.setProperty(key, v);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : plain(child));
  }
  return element;
}

/** An HTML element: h("a", {href: "#/"}, "home"). Attributes that begin with "on" are listeners, `css` sets properties. */
export const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);

/** An SVG element. */
export const s = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

/** Put other children into an element; nothing is touched where the new ones read the same. */
export function show(element, ...children) {
  const fresh = fill(document.createDocumentFragment(), null, children);
  const kept = document.createElement("div");
  kept.append(fresh.cloneNode(true));
  if (element.childNodes.length && kept.isEqualNode(sameKids(element))) return;
  element.replaceChildren(fresh);
}

function sameKids(element) {
  const copy = document.createElement("div");
  for (const child of element.childNodes) copy.append(child.cloneNode(true));
  return copy;
}

/** Call `draw(width)` now and whenever the element's width changes; gives what ends that. */
export function onWidth(element, draw) {
  let last = 0;
  const watcher = new ResizeObserver(() => {
    const width = Math.floor(element.clientWidth);
    if (width && width !== last) draw((last = width));
  });
  watcher.observe(element);
  return () => watcher.disconnect();
}
