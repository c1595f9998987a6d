// The public API, and nothing else. The page holds no token: a program that takes the manager's port later would receive it. It holds a
// session in this tab (sessionStorage), which is worth nothing without the manager that made it. EventSource cannot send it: fetch reads streams.

const KEY = "headway-session";
const RETRY_MS = [300, 700, 1500, 3000, 5000];
const ANSWER_MS = 15000;
const SILENCE_MS = 40000; // the manager says something at least every 15 s

export class Refused extends Error {
  constructor(status, detail, code = "") {
    super(detail);
    this.status = status;
    this.code = code;
  }
}

/** The manager did not answer, or not in time. */
export class Lost extends Error {}

export const session = {
  get: () => sessionStorage.getItem(KEY) ?? "",
  set: (value) => sessionStorage.setItem(KEY, value),
  clear: () => sessionStorage.removeItem(KEY),
};

/** Only TLS shows who answers: without it the page asks for no token. */
export const secure = location.protocol === "https:";
// A name such as localhost has several addresses, and another user may listen on one of them.
const byAddress = secure || /^(127\.[\d.]+|\[::1\])$/.test(location.hostname);

/** Exchange a code or a token for a session. */
export async function signInWith(secret) {
  session.clear();
  try {
    session.set((await post("/v1/sign-in", { secret })).session);
  } catch (error) {
    if (error.code !== "unauthorized") throw error;
    throw new Refused(0, "This link or token is not known here: it was used, it has expired, or the manager was restarted.");
  }
}

/** Whether the address carries a code or a session, behind the #, which browsers never send. */
export const isLink = () => /^#(code|session)=/.test(location.hash);

/** Sign in with the link, which is taken out of the address at once. */
export async function takeLink() {
  const [, kind, secret] = /^#(code|session)=([\w-]+)/.exec(location.hash) ?? [];
  history.replaceState(null, "", `${location.pathname}${location.search}#/`);
  if (!byAddress) throw new Refused(0, "Open the link as it was printed, with 127.0.0.1: under a name, another user's program may answer.");
  if (kind === "session") session.set(secret);
  else await signInWith(secret);
}

async function ask(path, options = {}) {
  const headers = { ...(session.get() ? { Authorization: `Bearer ${session.get()}` } : {}), ...options.headers };
  const answer = await reached(fetch(path, { ...options, headers, cache: "no-store" }));
  if (answer.ok) return answer;
  let problem = {};
  try {
    problem = await answer.json();
  } catch {
    // not a problem of ours: the status says it all
  }
  throw new Refused(answer.status, problem.detail ?? answer.statusText, problem.code);
}

/** What fetch or import gives, or Lost: browsers report a lost connection as a TypeError. An abort stays an AbortError. */
export async function reached(given) {
  try {
    return await given;
  } catch (error) {
    if (error instanceof TypeError || error?.name === "TimeoutError") throw new Lost(error.message);
    throw error;
  }
}

// Of a recorded run, every question is about one moment of it.
export const clock = { at: null };

/** The address of a question; empty parameters are left out. */
export function address(path, parameters = {}) {
  const query = new URLSearchParams();
  const all = clock.at === null ? parameters : { ...parameters, at: clock.at };
  for (const [name, value] of Object.entries(all)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== null && one !== undefined && one !== "") query.append(name, one);
    }
  }
  return query.size ? `${path}?${query}` : path;
}

/** Ask; an answer that does not come in time counts as a lost connection, so that the page asks again. */
export const get = async (path, parameters) => reached((await ask(address(path, parameters), { signal: AbortSignal.timeout(ANSWER_MS) })).json());

export async function post(path, body) {
  const headers = body === undefined ? {} : { "Content-Type": "application/json" };
  const answer = await ask(path, { method: "POST", headers, body: body === undefined ? undefined : JSON.stringify(body) });
  return answer.status === 204 ? null : answer.json();
}

/** The lines of an answer that goes on, as they come. */
export async function* lines(path, parameters, signal, heard = () => {}) {
  const answer = await ask(address(path, parameters), { signal });
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    heard();
    if (done) return;
    const parts = (rest + value).split("\n");
    rest = parts.pop();
    yield* parts;
  }
}

/** What happens, as it happens; comes back by itself after a lost connection, and goes on where it was. */
export class Events {
  constructor(onEvent, onState) {
    this.onEvent = onEvent;
    this.onState = onState;
    this.after = 0;
    this.tries = 0;
  }

  start(after) {
    this.after = Math.max(this.after, after);
    if (!this.running) this.run();
  }

  stop() {
    this.running = false;
    this.abort?.abort();
  }

  async run() {
    this.running = true;
    while (this.running) {
      this.abort = new AbortController();
      let alarm = 0;
      const heard = () => {
        clearTimeout(alarm);
        alarm = setTimeout(() => this.abort.abort(), SILENCE_MS);
        this.tries = 0;
        this.onState("live");
      };
      try {
        for await (const line of lines("/v1/events", { after: this.after }, this.abort.signal, heard)) {
          if (!line.startsWith("data: ")) continue;
          const event = JSON.parse(line.slice(6));
          this.after = event.number;
          this.onEvent(event);
        }
      } catch (error) {
        if (error instanceof Refused && error.code === "unauthorized") {
          this.running = false;
          this.onState("refused", error);
        }
      }
      clearTimeout(alarm);
      if (!this.running) return;
      this.onState("lost");
      await new Promise((done) => setTimeout(done, RETRY_MS[Math.min(this.tries++, RETRY_MS.length - 1)]));
    }
  }
}
