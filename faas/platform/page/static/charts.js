// Charts as inline SVG. Each says in words what it shows; those over time can be read off by pointer and arrow keys.

import {h, s, say, number, duration} from "./dom.js";
import {quantile} from "./series.js";

const HEIGHT = 108,
  LEFT = 30,
  RIGHT = 6,
  TOP = 8,
  BOTTOM = 18;

const ceiling = most => {
  if (most <= 4) return Math.max(1, Math.ceil(most));
  const power = 10 ** Math.floor(Math.log10(most));
  return [1, 1.5, 2, 3, 4, 5, 8, 10].map(step => step * power).find(step => step >= most);
};

const figure = (title, parts) => {
  const keys = parts.map(part =>
    h("span", {class: "key"}, h("i", {class: `swatch ${part.kind}`}), part.label, h("b", {}, "")),
  );
  const note = h("span", {class: "soft"});
  const svg = s("svg", {class: "chart", role: "img", height: HEIGHT, "aria-label": title});
  const box = h("figure", {}, h("figcaption", {}, h("h3", {}, title), h("p", {class: "keys"}, keys, note)), svg);
  return {box, svg, note, keys};
};

const axes = (width, top, labels) => {
  const bottom = HEIGHT - BOTTOM,
    lines = [];
  for (const share of [0, 0.5, 1]) {
    const y = bottom - share * (bottom - TOP);
    lines.push(s("line", {class: "grid", x1: LEFT, x2: width - RIGHT, y1: y, y2: y}));
    if (share !== 0.5 || top % 2 === 0) {
      lines.push(s("text", {class: "tick", x: LEFT - 5, y: y + 3.5, "text-anchor": "end"}, number(share * top)));
    }
  }
  for (const [x, text, anchor] of labels) {
    lines.push(s("text", {class: "tick", x, y: HEIGHT - 4, "text-anchor": anchor ?? "middle"}, text));
  }
  return lines;
};

// Parts stacked over the last `seconds`, in steps of `step` seconds. `update` takes one array of values for each part.
export const overTime = (title, parts, {seconds, step = 1, unit = ""}) => {
  const {box, svg, note, keys} = figure(title, parts);
  let drawn = parts.map(() => []),
    cursor = null,
    width = 300;
  svg.setAttribute("tabindex", "0");

  const at = index => drawn.map(values => values[index] ?? 0);
  const tell = () => {
    const count = drawn[0].length,
      index = cursor === null ? count - 1 : cursor;
    const values = at(index);
    values.forEach((value, i) => say(keys[i].querySelector("b"), number(value) + unit));
    const back = (count - 1 - index) * step;
    say(note, cursor === null ? "" : back ? `${back} s ago` : "now");
    const words = parts.map((part, i) => `${part.label} ${number(values[i])}${unit}`).join(", ");
    svg.setAttribute("aria-label", `${title}, ${cursor === null || !back ? "now" : `${back} seconds ago`}: ${words}`);
  };

  const paint = () => {
    const count = Math.max(2, drawn[0].length),
      right = width - RIGHT,
      bottom = HEIGHT - BOTTOM;
    const sums = drawn[0].map((_, i) => at(i).reduce((sum, value) => sum + value, 0));
    const top = ceiling(Math.max(0, ...sums));
    const x = i => LEFT + ((right - LEFT) * i) / count,
      y = value => bottom - ((bottom - TOP) * value) / top;
    const minutes = [];
    for (let minute = 0; minute <= seconds / 60; minute += width < 420 ? 2 : 1) {
      const from = right - ((right - LEFT) * minute * 60) / seconds;
      minutes.push([from, minute ? `−${minute} min` : "now", minute ? (from < LEFT + 20 ? "start" : "middle") : "end"]);
    }
    const under = drawn[0].map(() => 0),
      areas = [];
    parts.forEach((part, p) => {
      let upper = "",
        lower = "",
        any = false;
      drawn[p].forEach((value, i) => {
        any ||= value > 0;
        upper += `${i ? "L" : "M"}${x(i).toFixed(1)} ${y(under[i] + value).toFixed(1)}H${x(i + 1).toFixed(1)}`;
        lower = `L${x(i + 1).toFixed(1)} ${y(under[i]).toFixed(1)}H${x(i).toFixed(1)}${lower}`;
        under[i] += value;
      });
      if (any) areas.push(s("path", {class: `area ${part.kind}`, d: `${upper}${lower}Z`}));
    });
    const mark =
      cursor === null
        ? []
        : [s("rect", {class: "cursor", x: x(cursor), y: TOP, width: Math.max(1, x(1) - x(0)), height: bottom - TOP})];
    svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    svg.replaceChildren(...axes(width, top, minutes), ...areas, ...mark);
    tell();
  };

  const move = index => {
    cursor = index === null ? null : Math.max(0, Math.min(drawn[0].length - 1, index));
    paint();
  };
  svg.addEventListener("pointermove", event => {
    const inner = event.clientX - svg.getBoundingClientRect().left - LEFT;
    move(Math.floor((inner / (width - LEFT - RIGHT)) * drawn[0].length));
  });
  svg.addEventListener("pointerleave", () => move(null));
  svg.addEventListener("blur", () => move(null));
  svg.addEventListener("keydown", event => {
    const last = drawn[0].length - 1,
      now = cursor ?? last;
    const to = {ArrowLeft: now - 1, ArrowRight: now + 1, Home: 0, End: last, PageUp: now - 10, PageDown: now + 10}[
      event.key
    ];
    if (event.key === "Escape") move(null);
    else if (to === undefined) return;
    else move(to);
    event.preventDefault();
  });
  new ResizeObserver(entries => {
    width = Math.max(200, Math.round(entries[0].contentRect.width));
    paint();
  }).observe(svg);
  box.update = values => {
    drawn = values;
    paint();
  };
  return box;
};

// Counts by bucket, from the first that holds anything to the last.
export const histogram = (title, kind, {label, say: phrase, empty}) => {
  const {box, svg, note} = figure(title, []);
  let counted = [],
    width = 300;
  const paint = () => {
    const total = counted.reduce((sum, [, count]) => sum + count, 0);
    svg.toggleAttribute("hidden", !total);
    svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    if (!total) {
      say(note, empty);
      return;
    }
    const filled = counted.map(([, count], i) => (count ? i : -1)).filter(i => i >= 0);
    let first = Math.max(0, filled[0] - 1),
      last = Math.min(counted.length - 1, filled.at(-1) + 1);
    while (last - first < 5 && (first > 0 || last < counted.length - 1)) {
      if (first > 0) first -= 1;
      if (last < counted.length - 1) last += 1;
    }
    const shown = counted.slice(first, last + 1),
      top = ceiling(Math.max(...shown.map(([, count]) => count)));
    const bottom = HEIGHT - BOTTOM,
      slot = (width - LEFT - RIGHT) / shown.length;
    const every = Math.ceil(46 / slot);
    const labels = shown.map(([bound], i) => [
      LEFT + slot * (i + 0.5),
      i % every ? "" : label(bound, counted[first + i - 1]?.[0]),
    ]);
    const bars = shown.map(([bound, count], i) =>
      s(
        "rect",
        {
          class: `bar ${kind}`,
          x: LEFT + slot * i + 1,
          width: Math.max(1, slot - 2),
          rx: 1.5,
          y: bottom - Math.max(count ? 1.5 : 0, ((bottom - TOP) * count) / top),
          height: Math.max(count ? 1.5 : 0, ((bottom - TOP) * count) / top),
        },
        s("title", {}, `${number(count)} up to ${label(bound)}`),
      ),
    );
    svg.replaceChildren(...axes(width, top, labels), ...bars);
    const words = phrase(counted, total);
    say(note, words);
    svg.setAttribute("aria-label", `${title}: ${words}`);
  };
  new ResizeObserver(entries => {
    const found = Math.round(entries[0].contentRect.width);
    if (found) {
      width = Math.max(200, found);
      paint();
    }
  }).observe(box);
  box.update = values => {
    counted = values;
    paint();
  };
  return box;
};

export const quantiles = (counted, format) =>
  [0.5, 0.95, 0.99].map(q => `p${q * 100} ${format(quantile(counted, q))}`).join(" · ");

// A line no higher than text: how many calls were there, each of the last seconds.
export const spark = () => {
  const path = s("path", {class: "spark-line"}),
    area = s("path", {class: "spark-area"});
  const svg = s(
    "svg",
    {class: "spark", viewBox: "0 0 60 16", preserveAspectRatio: "none", "aria-hidden": "true"},
    area,
    path,
  );
  svg.update = values => {
    const top = Math.max(1, ...values),
      step = 60 / Math.max(1, values.length - 1);
    const line = values
      .map((value, i) => `${i ? "L" : "M"}${(i * step).toFixed(1)} ${(15 - (14 * value) / top).toFixed(1)}`)
      .join("");
    path.setAttribute("d", line);
    area.setAttribute("d", `${line}L60 16L0 16Z`);
    svg.classList.toggle(
      "flat",
      values.every(value => value === 0),
    );
  };
  return svg;
};

export const PHASES = ["fork", "import", "setup", "thaw", "warmup", "rest"];

// A start's phases as a bar of 100 units of width for `longest` seconds.
export const phasesBar = (phases, longest) => {
  let x = 0;
  const bars = phases.map(([name, taken]) => {
    const wide = Math.max(0.15, (100 * taken) / longest);
    const bar = s(
      "rect",
      {class: `phase ${PHASES.includes(name) ? name : "rest"}`, x, y: 0, width: wide, height: 10},
      s("title", {}, `${name} ${duration(taken)}`),
    );
    x += (100 * taken) / longest;
    return bar;
  });
  const words = phases.map(([name, taken]) => `${name} ${duration(taken)}`).join(", ");
  return s(
    "svg",
    {class: "phases", viewBox: "0 0 100 10", preserveAspectRatio: "none", role: "img", "aria-label": words},
    bars,
  );
};
