// Server-sent events, read with fetch: EventSource can send no token, and tells no reason when it is refused.

const KEY = "faas-token";
const LONGEST_WAIT_MS = 8000;
const SILENT_MS = 40000;

export const token = {get: () => sessionStorage.getItem(KEY) ?? "", set: value => sessionStorage.setItem(KEY, value)};

export class Refused extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

const parse = (block, on) => {
  let name = "message",
    data = "";
  for (const line of block.split("\n")) {
    if (line.startsWith("event: ")) name = line.slice(7);
    else if (line.startsWith("data: ")) data += line.slice(6);
  }
  if (data) on(name, JSON.parse(data));
};

const read = async (url, signal, on, opened) => {
  const own = new AbortController();
  const stop = () => own.abort();
  signal.addEventListener("abort", stop, {once: true});
  let watchdog = 0;
  try {
    const headers = {Accept: "text/event-stream"};
    if (token.get()) headers.Authorization = `Bearer ${token.get()}`;
    const response = await fetch(url, {headers, signal: own.signal, cache: "no-store"});
    if (!response.ok) {
      const problem = await response.json().catch(() => ({}));
      throw new Refused(response.status, problem.detail ?? `the platform answers ${response.status}`);
    }
    opened();
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let rest = ""; ;) {
      clearTimeout(watchdog);
      watchdog = setTimeout(stop, SILENT_MS);
      const {done, value} = await reader.read();
      if (done) return;
      const blocks = (rest + value).split("\n\n");
      rest = blocks.pop();
      blocks.forEach(block => parse(block, on));
    }
  } finally {
    clearTimeout(watchdog);
    signal.removeEventListener("abort", stop);
  }
};

// Follow `url` until the returned function is called; after a break it begins anew, from the start of the story.
// `told` hears "live", "lost" with the seconds until the next try, or "refused" with the reason, which ends it.
export const follow = (url, on, told) => {
  const stopping = new AbortController();
  const run = async () => {
    for (let wait = 250; !stopping.signal.aborted; wait = Math.min(LONGEST_WAIT_MS, wait * 2)) {
      try {
        await read(url, stopping.signal, on, () => {
          wait = 250;
          told("live");
        });
      } catch (error) {
        if (stopping.signal.aborted) return;
        if (error instanceof Refused && error.status < 500) return told("refused", error);
      }
      if (stopping.signal.aborted) return;
      told("lost", wait / 1000);
      await new Promise(done => {
        const timer = setTimeout(done, wait);
        stopping.signal.addEventListener(
          "abort",
          () => {
            clearTimeout(timer);
            done();
          },
          {once: true},
        );
      });
    }
  };
  run();
  return () => stopping.abort();
};
