// What a function prints, the newest at the bottom, followed while the reader is there.

import {h} from "./dom.js";

const MAX_LINES = 500,
  LONG = 400,
  SLACK_PX = 24;

const text = line =>
  line.length <= LONG
    ? h("span", {class: "text"}, line)
    : h(
        "details",
        {class: "text"},
        h(
          "summary",
          {},
          line.slice(0, 160),
          h("span", {class: "soft"}, ` … ${line.length.toLocaleString("en")} characters`),
        ),
        line,
      );

export const logs = () => {
  const list = h("div", {class: "log", role: "log", "aria-live": "off", "aria-label": "Log", tabindex: "0"});
  const empty = h("p", {class: "soft"}, "It has printed nothing.");
  const filter = h("input", {type: "search", placeholder: "Filter", "aria-label": "Filter the log"});
  const fits = row => !filter.value || row.sought.includes(filter.value.toLowerCase());
  const atEnd = () => list.scrollHeight - list.scrollTop - list.clientHeight < SLACK_PX;
  filter.addEventListener("input", () => {
    for (const row of list.children) row.hidden = !fits(row);
    list.scrollTop = list.scrollHeight;
  });
  list.hidden = true;
  const box = h(
    "section",
    {"aria-labelledby": "log"},
    h("div", {class: "row spread"}, h("h2", {id: "log"}, "Log"), filter),
    empty,
    list,
  );
  box.clear = () => list.replaceChildren();
  box.add = lines => {
    if (!lines.length) return;
    empty.hidden = true;
    list.hidden = false;
    const follows = atEnd();
    for (const line of lines.slice(-MAX_LINES)) {
      const when = new Date(line.time);
      const row = h(
        "div",
        {class: line.text.startsWith("faas: ") ? "line ours" : "line"},
        h("time", {datetime: line.time, title: when.toLocaleString()}, when.toLocaleTimeString("en-GB")),
        h("span", {class: "who", title: line.instance}, line.instance.split("-").at(-1)),
        text(line.text),
      );
      row.sought = `${line.instance} ${line.text}`.toLowerCase();
      row.hidden = !fits(row);
      list.append(row);
    }
    while (list.children.length > MAX_LINES) list.firstElementChild.remove();
    if (follows) list.scrollTop = list.scrollHeight;
  };
  return box;
};
