// The page: what there is, what is looked at, and whether the story is live.

import {h, say, keyed, duration, number, plural} from "./dom.js";
import {spark} from "./charts.js";
import * as series from "./series.js";
import {detail} from "./detail.js";
import {follow, token} from "./stream.js";

const SPARK_S = 60,
  TICK_MS = 1000,
  FILTER_FROM = 8,
  REST_AFTER_MS = 30000;
const at = id => document.getElementById(id);
const main = at("main"),
  nav = at("functions"),
  link = at("link"),
  pause = at("pause");

const known = new Map();
let looked = null,
  shown = null,
  stop = null,
  isPaused = false,
  resting = 0;

const clock = {
  offset: null,
  unixOffset: 0,
  set({clock: monotonic, now}) {
    if (monotonic !== undefined) this.offset = monotonic - performance.now() / 1000;
    if (now !== undefined) this.unixOffset = now - performance.now() / 1000;
  },
  monotonic() {
    return (this.offset ?? 0) + performance.now() / 1000;
  },
  unix() {
    return this.unixOffset + performance.now() / 1000;
  },
};

// The list of functions.

const list = h("ul", {role: "list", class: "functions"});
const heads = h(
  "div",
  {class: "heads", "aria-hidden": "true"},
  ["", "Function", "State", "In flight, last minute", "Rate", "Calls", "Waiting", "Last start"].map((text, i) =>
    h("span", {class: i > 3 ? "num" : i === 2 ? "word" : ""}, text),
  ),
);
const filter = h("input", {type: "search", placeholder: "Filter functions", "aria-label": "Filter functions"});
const empty = h(
  "div",
  {class: "note", hidden: true},
  h("h1", {}, "No functions yet"),
  h("p", {}, "Deploy one from a file, while the platform runs:"),
  h("pre", {}, "faas deploy --local app.py"),
);
filter.addEventListener("input", () => drawList());
nav.append(filter, heads, list);

const health = row => {
  if (row.failure) return ["failing", "failing"];
  if (row.instances > row.ready && !row.ready) return ["starting", "starting"];
  return row.ready ? ["ready", `${row.ready} ready`] : ["zero", "at zero"];
};

const item = name => {
  const title = h("b", {}, name),
    word = h("span", {class: "word"}),
    line = spark();
  const rate = h("span", {class: "num"}),
    calls = h("span", {class: "num"}),
    waiting = h("span", {class: "num"}),
    starts = h("span", {class: "num"}),
    why = h("span", {class: "why bad"});
  const dot = h("i", {class: "dot"});
  const anchor = h(
    "a",
    {href: `#/${encodeURIComponent(name)}`},
    dot,
    title,
    word,
    line,
    rate,
    calls,
    waiting,
    starts,
    why,
  );
  const made = h("li", {}, anchor);
  made.update = one => {
    const [kind, words] = health(one.row);
    const until = Math.floor(clock.monotonic()),
      since = until - SPARK_S + 1;
    dot.className = `dot ${kind}`;
    say(word, words);
    line.update(series.gauge(one.samples, series.CURRENT, since, until));
    const perSecond = series.rate(one.samples, series.REQUESTS, until - 9, until, 10)[0] ?? 0;
    say(rate, perSecond ? `${number(perSecond)}/s` : "–");
    say(calls, number(one.row.requests));
    say(waiting, one.row.held ? number(one.row.held) : "–");
    say(starts, one.row.last_start_ms ? duration(one.row.last_start_ms.total / 1e3) : "–");
    say(why, one.row.failure ?? "");
    if (looked === name) anchor.setAttribute("aria-current", "page");
    else anchor.removeAttribute("aria-current");
    anchor.setAttribute(
      "aria-label",
      `${name}, ${words}, ${plural(one.row.requests, "call")}${one.row.failure ? `, ${one.row.failure}` : ""}`,
    );
  };
  return made;
};

const drawList = () => {
  const sought = filter.value.toLowerCase();
  const names = [...known.keys()].filter(name => name.toLowerCase().includes(sought)).sort();
  keyed(
    list,
    names.map(name => [name, known.get(name)]),
    item,
  );
  filter.hidden = known.size < FILTER_FROM;
  heads.hidden = !known.size;
  empty.hidden = known.size > 0 || clock.offset === null;
  const rows = [...known.values()].map(one => one.row),
    sum = key => rows.reduce((total, row) => total + row[key], 0);
  say(
    at("totals"),
    known.size
      ? [
          plural(known.size, "function"),
          `${plural(sum("ready"), "instance")} ready`,
          ...(sum("held") ? [`${number(sum("held"))} waiting`] : []),
          `${number(sum("in_flight"))} in flight`,
        ].join(" · ")
      : "",
  );
};

// What the platform tells.

const hear = (event, told) => {
  clock.set(told);
  if (event === "functions") {
    for (const name of told.gone) known.delete(name);
    for (const row of told.rows) {
      const before = known.get(row.name)?.samples ?? [];
      const now = Math.floor(told.clock);
      const more = row.samples ?? [[now, 0, row.ready, 0, row.held, row.in_flight, row.requests, row.failed]];
      known.set(row.name, {row, samples: series.merge(row.samples ? [] : before, more, now - SPARK_S - 10)});
    }
    drawList();
  } else if (event === "function") {
    if (!shown) show(looked);
    shown.update(told);
  } else if (event === "log") shown?.log(told.lines);
  else if (event === "missing") {
    shown = null;
    main.replaceChildren(
      h(
        "div",
        {class: "note"},
        h("h1", {}, "No such function"),
        h("p", {}, told.detail),
        h("p", {}, h("a", {href: "#/"}, "All functions")),
      ),
    );
  }
};

const told = (state, detail) => {
  link.dataset.state = state;
  if (state === "live") {
    known.clear();
    shown?.begin();
    say(link, "live");
  } else if (state === "lost") say(link, "reconnecting");
  else {
    say(link, "not allowed");
    refuse(detail);
  }
};

const refuse = error => {
  shown = null;
  document.body.dataset.view = "refused";
  if (error.status !== 401) {
    main.replaceChildren(h("div", {class: "note"}, h("h1", {}, "Not shown here"), h("p", {}, error.message)));
    return;
  }
  const field = h("input", {type: "password", id: "token", autocomplete: "off", required: true});
  const wrong = token.get() ? h("p", {class: "bad", role: "alert"}, "That is not the token.") : null;
  const form = h(
    "form",
    {
      class: "note",
      onsubmit: event => {
        event.preventDefault();
        token.set(field.value.trim());
        open();
      },
    },
    h("h1", {}, "Token"),
    h("p", {}, "This platform shows what it does to those who have its token; it is kept in this tab alone."),
    wrong,
    h("label", {for: "token"}, "Token"),
    h("div", {class: "row"}, field, h("button", {type: "submit"}, "Open")),
  );
  main.replaceChildren(form);
  field.focus();
};

// What is looked at.

const show = name => {
  shown = name === null ? null : detail(name, clock);
  document.body.dataset.view = name === null ? "all" : "one";
  document.title = name === null ? "faas" : `${name} · faas`;
  main.replaceChildren(shown ?? empty);
};

const pausing = value => {
  isPaused = value;
  pause.setAttribute("aria-pressed", String(value));
};
const rest = (state, words) => {
  stop?.();
  stop = null;
  link.dataset.state = state;
  say(link, words);
};
const connect = () => {
  stop?.();
  pausing(false);
  stop = follow(looked === null ? "events" : `events?function=${encodeURIComponent(looked)}`, hear, told);
};

const open = () => {
  show(looked);
  connect();
};

const route = () => {
  let name = null;
  try {
    name = location.hash.startsWith("#/") ? decodeURIComponent(location.hash.slice(2)) || null : null;
  } catch {
    /* no name */
  }
  const isFirst = stop === null && clock.offset === null;
  if (name === looked && !isFirst) return;
  looked = name;
  open();
  drawList();
  if (isFirst) return;
  scrollTo(0, 0);
  main.focus({preventScroll: true});
};

pause.addEventListener("click", () => {
  if (isPaused) return connect();
  pausing(true);
  rest("paused", "paused");
});
document.querySelector(".skip").addEventListener("click", event => {
  event.preventDefault();
  main.focus();
});
// Nobody looks at a tab in the background: the platform need not tell it anything.
document.addEventListener("visibilitychange", () => {
  clearTimeout(resting);
  if (document.hidden)
    resting = setTimeout(() => {
      if (stop) rest("resting", "resting");
    }, REST_AFTER_MS);
  else if (link.dataset.state === "resting") connect();
});
addEventListener("hashchange", route);
setInterval(() => {
  if (document.hidden || isPaused || clock.offset === null) return;
  drawList();
  shown?.tick();
}, TICK_MS);
route();
