// The tables of one function: its revisions, its instances, and how they started.

import {ago, bytes, duration, h, keyed, number, say} from "./dom.js";
import {PHASES, phasesBar} from "./charts.js";

const NUM_STARTS = 10;

const table = (label, columns) => {
  const rows = h("tbody");
  const heads = columns.map(([name, kind]) => h("th", {scope: "col", class: kind}, name));
  const box = h(
    "div",
    {class: "scroll", role: "region", "aria-label": label, tabindex: "0"},
    h("table", {}, h("thead", {}, h("tr", {}, heads)), rows),
  );
  return {box, rows};
};

// A row of a table whose cells `cells` gives anew: texts or elements.
const row = (columns, cells) => () => {
  const made = h(
    "tr",
    {},
    columns.map(([, kind], i) => h(i ? "td" : "th", {class: kind, scope: i ? null : "row"})),
  );
  made.update = item =>
    cells(item).forEach((value, i) => {
      if (value instanceof Element) made.children[i].replaceChildren(value);
      else say(made.children[i], value);
    });
  return made;
};

const state = text => h("span", {class: `state ${text}`}, text);

const REVISIONS = [
  ["Revision"],
  ["State"],
  ["Traffic"],
  ["Tags", "wide"],
  ["Deployed", "wide"],
  ["Ready", "num"],
  ["Requests", "num wide"],
];
export const revisions = clock => {
  const {box, rows} = table("Revisions", REVISIONS);
  const share = percent =>
    h("span", {class: "share"}, h("meter", {min: 0, max: 100, value: percent, "aria-label": "Traffic"}), `${percent}%`);
  const make = row(REVISIONS, one => [
    h("span", {}, h("b", {}, `${one.number}`), " ", h("code", {}, one.revision)),
    state(one.state),
    share(one.percent),
    one.tags.join(", ") || "–",
    ago(clock.unix() - one.deployed_at),
    one.ready === one.instances ? number(one.ready) : `${one.ready} of ${one.instances}`,
    number(one.requests),
  ]);
  box.update = all =>
    keyed(
      rows,
      all.map(one => [one.revision, one]),
      make,
    );
  return box;
};

const INSTANCES = [
  ["Instance"],
  ["State"],
  ["Revision", "wide"],
  ["PID", "num"],
  ["How", "wide"],
  ["Age", "num"],
  ["Memory", "num"],
];
export const instances = clock => {
  const {box, rows} = table("Instances", INSTANCES);
  const make = row(INSTANCES, one => [
    h("code", {}, one.id.split("-").at(-1)),
    state(one.state),
    h("code", {}, one.revision),
    one.pid === null ? "–" : String(one.pid),
    one.how || "–",
    duration(Math.max(0, Math.floor(clock.monotonic() - one.began))),
    one.resident ? bytes(one.resident) : "–",
  ]);
  box.update = all =>
    keyed(
      rows,
      all.map(one => [one.id, one]),
      make,
    );
  return box;
};

export const phasesOf = (phases, total) => {
  const known = PHASES.filter(name => name in phases).map(name => [name, phases[name]]);
  const others = Object.entries(phases).filter(([name]) => !PHASES.includes(name));
  const rest = total - [...known, ...others].reduce((sum, [, taken]) => sum + taken, 0);
  return [...known, ...others, ...(rest > 0 ? [["rest", rest]] : [])];
};

const STARTS = [["Instance"], ["When", "wide"], ["How", "wide"], ["Phases", "phases-cell"], ["Total", "num"]];
export const starts = clock => {
  const {box, rows} = table("Cold starts", STARTS);
  const legend = h(
    "p",
    {class: "keys"},
    PHASES.map(name => h("span", {class: "key"}, h("i", {class: `swatch phase ${name}`}), name)),
  );
  const make = row(STARTS, one => [
    h("code", {}, one.id.split("-").at(-1)),
    one.isOver ? ago(clock.monotonic() - one.readyAt) : "now",
    one.how || "–",
    phasesBar(one.isOver ? one.phases : [["rest", one.total]], one.longest),
    one.isOver ? duration(one.total) : `${duration(one.total)} so far`,
  ]);
  const empty = h("p", {class: "soft"}, "No instance has started while this platform ran.");
  const made = h("div", {}, legend, empty, box);
  made.update = (ended, current) => {
    const all = [...current, ...ended].slice(0, NUM_STARTS);
    const longest = Math.max(1e-6, ...all.map(one => one.total));
    empty.hidden = all.length > 0;
    box.hidden = legend.hidden = !all.length;
    keyed(
      rows,
      all.map(one => [one.id, {...one, longest}]),
      make,
    );
  };
  return made;
};
