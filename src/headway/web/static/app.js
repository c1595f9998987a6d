// The frame: sign-in, navigation, the connection, the time slider of a recorded run; pages are loaded when they are opened.

import { clock, Events, get, isLink, Lost, post, reached, Refused, secure, session, signInWith, takeLink } from "./api.js";
import { h, show } from "./dom.js";
import { setReasons } from "./format.js";
import { player } from "./parts/player.js";

const PAGES = {
  "": ["Overview", () => import("./pages/overview.js")],
  queue: ["Queue", () => import("./pages/queue.js")],
  network: ["Network", () => import("./pages/network.js")],
  whatif: ["What if", () => import("./pages/whatif.js")],
  job: [null, () => import("./pages/job.js")],
};
const UPDATE_MS = 700; // at most this often; events come in bursts
const POLL_MS = 5000; // somebody who sees few jobs gets few events

const app = document.getElementById("app");
const ctx = { me: null, recording: null, news: [], refresh: () => {}, lost: false };
let page = null;
let events = null;
let due = 0;
let reading = null;
let again = false;
let routes = 0;

function theme() {
  const next = { auto: "light", light: "dark", dark: "auto" };
  const now = () => localStorage.getItem("headway-theme") ?? "auto";
  const apply = () => {
    document.documentElement.dataset.theme = now();
    button.textContent = { auto: "◐", light: "☀", dark: "☾" }[now()];
    button.setAttribute("aria-label", `Colours: ${now()}. Change`);
    button.title = `Colours: ${now()}`;
  };
  const button = h("button", {
    class: "quiet icon",
    type: "button",
    onclick: () => {
      localStorage.setItem("headway-theme", next[now()]);
      apply();
    },
  });
  apply();
  return button;
}

function signIn(message) {
  events?.stop();
  routes++; // what loads now is not shown
  page?.close?.();
  page = null;
  ctx.me = null;
  const problem = h("p", { class: "problem", role: "alert" }, message ?? "");
  const link = [
    "Run ", h("code", null, "headway dashboard"), " on the manager's machine, and open the link that it prints. The link works once; ",
    "this tab stays signed in until the manager stops.",
  ];
  show(
    app,
    h("main", { id: "main", class: "signin", tabindex: "-1" },
      h("div", { class: "card" }, h("h1", null, "Sign in to Headway"), problem, h("p", null, link), secure ? tokenForm(problem) : null),
    ),
  );
  document.title = "Sign in · Headway";
  document.getElementById(secure ? "token" : "main").focus();
}

/** A token is exchanged for a session at once, and not kept. */
function tokenForm(problem) {
  const field = h("input", {
    id: "token", type: "password", autocomplete: "off", spellcheck: "false", required: true, "aria-describedby": "token-help",
  });
  const submit = async (event) => {
    event.preventDefault();
    const secret = field.value.trim();
    field.value = "";
    try {
      await signInWith(secret);
      await begin();
    } catch (error) {
      problem.textContent = reason(error);
      field.focus();
    }
  };
  return h("form", { onsubmit: submit },
    h("label", { for: "token" }, "Token"), field,
    h("p", { id: "token-help", class: "dim" }, "Or give a token that ", h("code", null, "headway token make"), " printed. It is not kept."),
    h("button", { type: "submit", class: "primary" }, "Sign in"),
  );
}

/** Why something failed, for the person who signs in. A session that is refused is forgotten. */
function reason(error) {
  if (!(error instanceof Refused)) return "The manager cannot be reached.";
  if (error.code !== "unauthorized") return error.message;
  session.clear();
  return "The session has ended.";
}

function frame() {
  const status = h("span", { id: "connection", class: "connection", role: "status" });
  const links = Object.entries(PAGES)
    .filter(([name, [title]]) => title && !(name === "whatif" && (ctx.recording || ctx.me.scope !== "operate")))
    .map(([name, [title]]) => h("a", { href: `#/${name}`, "data-page": name }, title));
  const out = h("button", {
    class: "quiet", type: "button", title: `${ctx.me.name}: ${ctx.me.scope}`,
    onclick: () => {
      post("/v1/sign-out").catch(() => {}); // asked before the session is forgotten
      session.clear();
      signIn();
    },
  }, "Sign out");
  show(
    app,
    h("header", { class: "top" },
      h("a", { class: "brand", href: "#/" }, "Headway"),
      h("nav", { "aria-label": "Pages" }, links),
      h("span", { class: "space" }),
      status,
      h("span", { class: "who dim" }, ctx.recording ? "" : `${ctx.me.user} (${ctx.me.scope})`),
      theme(),
      ctx.recording ? null : out,
    ),
    ctx.recording ? player(ctx, update) : null,
    h("main", { id: "main", tabindex: "-1" }),
  );
}

function connection(state, error) {
  if (state === "refused") return signIn(reason(error));
  const back = state === "live" && ctx.lost;
  ctx.lost = state === "lost";
  const status = document.getElementById("connection");
  if (status) {
    status.dataset.state = state;
    status.textContent = ctx.recording ? "recorded run" : state === "live" ? "live" : "connection lost, trying again";
  }
  if (back) page ? update() : route(); // it may have been lost while a page was loading
}

/** Ask the page to read again, at most every so often. */
function soon() {
  if (due) return;
  due = setTimeout(update, UPDATE_MS);
}

/** Read again; asked while it is reading, it reads once more afterwards. */
function update() {
  if (reading) {
    again = true;
    return reading;
  }
  reading = (async () => {
    do {
      again = false;
      await readOnce();
    } while (again);
  })().finally(() => (reading = null));
  return reading;
}

async function readOnce() {
  clearTimeout(due);
  due = 0;
  if (!page?.update || document.hidden) return;
  try {
    await page.update();
    if (ctx.lost && ctx.recording) connection("live");
  } catch (error) {
    failed(error);
  }
}

function failed(error) {
  if (error?.name === "AbortError") return;
  if (error instanceof Refused && error.code === "unauthorized") return signIn(reason(error));
  if (error instanceof Refused) return tell(error.message);
  if (error instanceof Lost) return connection("lost");
  tell(String(error?.message ?? error));
  console.error(error);
}

/** Say something for a moment, also to screen readers. */
function tell(words) {
  let place = document.getElementById("toast");
  if (!place) app.append((place = h("div", { id: "toast", role: "alert" })));
  place.textContent = words;
  place.classList.add("shown");
  clearTimeout(place.timer);
  place.timer = setTimeout(() => place.classList.remove("shown"), 6000);
}

async function route() {
  if (!ctx.me) return;
  const [name, ...rest] = location.hash.replace(/^#\/?/, "").split("/");
  const [title, load] = PAGES[name] ?? PAGES[""];
  for (const link of document.querySelectorAll("nav a")) {
    const here = link.dataset.page === name;
    here ? link.setAttribute("aria-current", "page") : link.removeAttribute("aria-current");
  }
  const turn = ++routes; // another page may be asked for while this one loads
  page?.close?.();
  page = null;
  const main = document.getElementById("main");
  main.replaceChildren(h("p", { class: "dim loading" }, "Loading…"));
  try {
    const module = await reached(load());
    if (turn !== routes) return;
    main.replaceChildren();
    document.title = `${title ?? `Job ${rest[0]}`} · Headway`;
    const time = clock.at;
    const opened = await module.open(main, { ...ctx, ctx, tell, failed, soon }, rest.map(decodeURIComponent));
    if (turn !== routes) return opened?.close?.();
    page = opened;
    if (time !== clock.at) update(); // the time was moved while the page was loading, and nothing could be updated
  } catch (error) {
    if (turn !== routes) return;
    failed(error);
    main.replaceChildren(h("p", { class: "problem" }, error instanceof Refused ? error.message : "This page could not be loaded."));
  }
}

async function begin() {
  const [me, listed] = await Promise.all([get("/v1/me"), get("/v1/reasons")]);
  setReasons(listed.reasons);
  ctx.me = me;
  const first = await get("/v1/overview");
  ctx.recording = first.recording;
  ctx.first = first;
  if (ctx.recording) clock.at = ctx.recording.first;
  frame();
  events?.stop();
  events = new Events((event) => {
    ctx.news.push(event);
    if (ctx.news.length > 200) ctx.news.splice(0, 100);
    soon();
  }, connection);
  if (ctx.recording) connection("live");
  else events.start(first.last_event);
  await route();
}

/** Sign in with the link in the address, if there is one, or with the session of this tab. */
async function start() {
  try {
    if (isLink()) await takeLink();
    if (!session.get()) return signIn();
    await begin();
  } catch (error) {
    signIn(reason(error));
  }
}

addEventListener("hashchange", () => {
  if (isLink()) return start();
  route();
  document.getElementById("main")?.focus({ preventScroll: true });
  scrollTo(0, 0);
});
document.addEventListener("visibilitychange", () => !document.hidden && update());
setInterval(() => !ctx.recording && page && update(), POLL_MS);
document.documentElement.dataset.theme = localStorage.getItem("headway-theme") ?? "auto";
start();
