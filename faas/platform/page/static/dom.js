// Elements, and numbers as people read them. Text is only ever set as text.

const SVG = "http://www.w3.org/2000/svg";

const fill = (made, attributes, children) => {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.flat().filter(child => child !== null && child !== undefined && child !== false));
  return made;
};

export const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
export const s = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

// Change a text only where it differs: what a reader has selected stays selected.
export const say = (element, text) => {
  if (element.textContent !== text) element.textContent = text;
};

// Bring the children of `parent` to those of `items` in their order; `make` is called once a key.
export const keyed = (parent, items, make) => {
  const before = new Map([...parent.children].map(child => [child.dataset.key, child]));
  let at = parent.firstElementChild;
  for (const [key, item] of items) {
    let child = before.get(key);
    before.delete(key);
    if (!child) {
      child = make(key, item);
      child.dataset.key = key;
    }
    if (child === at) at = at.nextElementSibling;
    else parent.insertBefore(child, at);
    child.update?.(item);
  }
  for (const child of before.values()) child.remove();
};

const figures = (value, digits) => Number(value.toPrecision(digits)).toLocaleString("en", {maximumFractionDigits: 6});

export const duration = seconds => {
  if (seconds < 1e-3) return `${figures(seconds * 1e6, 2)} µs`;
  if (seconds < 1) return `${figures(seconds * 1e3, 3)} ms`;
  if (seconds < 60) return `${figures(seconds, 3)} s`;
  const [long, one, short, other] =
    seconds < 3600 ? [60, "min", 1, "s"] : seconds < 86400 ? [3600, "h", 60, "min"] : [86400, "d", 3600, "h"];
  const rest = Math.floor((seconds % long) / short);
  return `${Math.floor(seconds / long)} ${one}${rest ? ` ${rest} ${other}` : ""}`;
};
export const ago = seconds => {
  if (seconds < 1.5) return "now";
  if (seconds < 60) return `${Math.round(seconds)} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  return seconds < 86400 ? `${Math.floor(seconds / 3600)} h ago` : `${Math.floor(seconds / 86400)} d ago`;
};
export const number = value =>
  Math.abs(value) >= 1e5
    ? value.toLocaleString("en", {notation: "compact", maximumFractionDigits: 1})
    : value.toLocaleString("en", {maximumFractionDigits: value < 10 ? 1 : 0});
export const bytes = value => {
  const names = ["B", "KiB", "MiB", "GiB", "TiB"];
  let step = 0;
  while (value >= 1024 && step < names.length - 1) {
    value /= 1024;
    step += 1;
  }
  return `${figures(value, 3)} ${names[step]}`;
};
export const plural = (count, noun) => `${number(count)} ${noun}${count === 1 ? "" : "s"}`;
