// Calling a function from the page, by the same way as everybody's calls. Its schema comes from an instance.

import {h, duration, bytes} from "./dom.js";
import {build, example} from "./form.js";

const MAX_SHOWN = 200000;
const TOLD = ["x-cold-start", "x-batch-size", "x-instance-id", "x-model-version", "x-request-id"];

const pretty = value => JSON.stringify(value, null, 2);

// JSON with a line for each member, its numbers as they came: 3.0 stays 3.0, and no digit of a long one is lost.
const indented = text => {
  JSON.parse(text);
  let depth = 0;
  return text.replace(/"(?:[^"\\]|\\.)*"|[[{]\s*[\]}]|[[\]{},:]|\s+/g, token => {
    const line = step => `\n${"  ".repeat((depth += step))}`;
    if (token.length > 1) return token.trim() && (token[0] === '"' ? token : token.replace(/\s/g, ""));
    if ("[{".includes(token)) return token + line(1);
    if ("]}".includes(token)) return line(-1) + token;
    return token === "," ? token + line(0) : token === ":" ? ": " : token.trim();
  });
};
const shellQuoted = text => `'${text.replaceAll("'", "'\\''")}'`;

const show = (out, text) => {
  out.textContent =
    text.length > MAX_SHOWN ? `${text.slice(0, MAX_SHOWN)}\n… ${text.length - MAX_SHOWN} characters more` : text;
};

const receive = async (response, out) => {
  const kind = response.headers.get("content-type") ?? "";
  if (kind.includes("octet-stream")) {
    const blob = await response.blob();
    const link = h("a", {href: URL.createObjectURL(blob), download: "answer"}, `${bytes(blob.size)}: save`);
    return out.replaceChildren(link);
  }
  if (!kind.startsWith("text/event-stream")) {
    const text = await response.text();
    try {
      return show(out, indented(text));
    } catch {
      return show(out, text);
    }
  }
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let text = ""; ;) {
    const {done, value} = await reader.read();
    if (done) return;
    show(out, (text += value));
    out.scrollTop = out.scrollHeight;
  }
};

// The parts of `Server-Timing` that took any time, as the answer told them.
const timing = header =>
  (header ?? "")
    .split(",")
    .map(part => {
      const [name, ...rest] = part.trim().split(";");
      const dur = rest.map(one => one.trim()).find(one => one.startsWith("dur="));
      return dur ? [name, Number(dur.slice(4)) / 1e3] : null;
    })
    .filter(Boolean);

const body = (spec, operation) => {
  const content = operation.requestBody?.content ?? {};
  if ("application/octet-stream" in content) {
    const file = h("input", {type: "file", "aria-label": "Body, a file"});
    return {
      element: file,
      kind: "application/octet-stream",
      read: () => file.files[0] ?? new Blob(),
      curl: "--data-binary @FILE",
    };
  }
  const given = content["application/json"];
  if (!given)
    return {element: h("p", {class: "soft"}, "It takes no body."), kind: "application/json", read: () => "{}"};
  let value = given.example ?? example(spec, given.schema),
    form = build(spec, given.schema, value),
    isRaw = false;
  const raw = h("textarea", {rows: 6, class: "code", spellcheck: "false", "aria-label": "Body as JSON"});
  const holder = h("div", {}, form.element),
    message = h("p", {class: "bad", role: "alert"});
  const toggle = h(
    "button",
    {
      type: "button",
      class: "quiet",
      "aria-pressed": "false",
      onclick: () => {
        try {
          value = isRaw ? JSON.parse(raw.value) : form.read();
        } catch (error) {
          message.textContent = error.message;
          return;
        }
        message.textContent = "";
        isRaw = !isRaw;
        toggle.setAttribute("aria-pressed", String(isRaw));
        if (isRaw) raw.value = pretty(value);
        else form = build(spec, given.schema, value);
        holder.replaceChildren(isRaw ? raw : form.element);
      },
    },
    "as JSON",
  );
  const read = () => {
    message.textContent = "";
    try {
      return isRaw ? raw.value : JSON.stringify(form.read());
    } catch (error) {
      message.textContent = error.message;
      return null;
    }
  };
  return {element: h("div", {class: "body"}, holder, message), toggle, kind: "application/json", read};
};

const endpoint = (spec, base, path, operation) => {
  const taken = body(spec, operation),
    url = new URL(base + path.replace(/^\//, ""), location.href);
  const streams = "text/event-stream" in (operation.responses["200"].content ?? {});
  const asStream = h("input", {type: "checkbox", checked: streams});
  const send = h("button", {type: "submit"}, "Call"),
    stop = h("button", {type: "button", class: "quiet", hidden: true}, "Cancel");
  const status = h("p", {class: "soft", role: "status"}),
    told = h("dl", {class: "told"}),
    out = h("pre", {class: "answer", hidden: true, tabindex: "0", "aria-label": "Answer"});
  const curl = h("pre", {}),
    details = h("details", {}, h("summary", {}, "curl"), curl);

  details.addEventListener("toggle", () => {
    const sent = taken.curl ?? `-d ${shellQuoted(taken.read() ?? "")}`;
    curl.textContent = `curl ${sent} ${shellQuoted(url.href)}`;
  });
  const submit = async event => {
    event.preventDefault();
    const sent = taken.read();
    if (sent === null) return;
    const cancel = new AbortController(),
      began = performance.now();
    stop.onclick = () => cancel.abort();
    send.disabled = true;
    stop.hidden = false;
    status.textContent = "waiting";
    status.className = "soft";
    told.replaceChildren();
    out.hidden = true;
    try {
      const headers = {
        "Content-Type": taken.kind,
        Accept: streams && asStream.checked ? "text/event-stream" : "application/json",
      };
      const response = await fetch(url, {method: "POST", headers, body: sent, signal: cancel.signal});
      out.hidden = false;
      out.textContent = "";
      const first = performance.now();
      await receive(response, out);
      const taking =
        streams && asStream.checked ? ` to the first byte, ${duration((performance.now() - began) / 1e3)} in all` : "";
      status.textContent = `${response.status} in ${duration((first - began) / 1e3)}${taking}`;
      status.className = response.ok ? "good" : "bad";
      const pairs = [
        ...timing(response.headers.get("server-timing")).map(([name, taken]) => [name, duration(taken)]),
        ...TOLD.map(name => [name, response.headers.get(name)]).filter(([, value]) => value !== null),
      ];
      told.replaceChildren(...pairs.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
    } catch (error) {
      status.textContent = cancel.signal.aborted ? "cancelled" : `no answer: ${error.message}`;
      status.className = "bad";
    }
    send.disabled = false;
    stop.hidden = true;
  };
  const title = h(
    "h4",
    {},
    h("span", {class: "verb"}, "POST"),
    " ",
    h("code", {}, path),
    operation.summary && operation.summary !== operation.operationId
      ? h("span", {class: "soft"}, ` ${operation.summary}`)
      : null,
  );
  return h(
    "form",
    {class: "endpoint", onsubmit: submit},
    title,
    taken.element,
    h(
      "div",
      {class: "row"},
      send,
      stop,
      taken.toggle,
      streams ? h("label", {class: "check"}, asStream, " as a stream") : null,
      status,
    ),
    told,
    out,
    details,
  );
};

// The section of a function. Nothing is asked for until it is opened: what tells the schema is an instance.
export const calling = (name, isAwake) => {
  const base = `../f/${encodeURIComponent(name)}/`;
  const holder = h("div", {class: "endpoints"});
  const say = text => holder.replaceChildren(h("p", {class: "soft", role: "status"}, text));
  const load = async () => {
    say(isAwake() ? "Reading its schema." : "Starting an instance, which tells the schema.");
    try {
      const response = await fetch(`${base}openapi.json`);
      if (!response.ok)
        throw new Error((await response.json().catch(() => ({}))).detail ?? `it answers ${response.status}`);
      const spec = await response.json();
      holder.replaceChildren(
        ...Object.entries(spec.paths)
          .filter(([, item]) => item.post)
          .map(([path, item]) => endpoint(spec, base, path, item.post)),
      );
      holder.querySelector("textarea, input, select, button")?.focus();
    } catch (error) {
      holder.replaceChildren(
        h("p", {class: "bad", role: "alert"}, `Its schema cannot be read: ${error.message}`),
        h("button", {type: "button", class: "quiet", onclick: load}, "Try again"),
      );
    }
  };
  const open = h("button", {type: "button", onclick: load}, "Show the form");
  holder.append(
    h(
      "div",
      {class: "row"},
      open,
      h("p", {class: "soft"}, "Its schema comes from an instance; one is started where none runs."),
    ),
  );
  return h("section", {"aria-labelledby": "call"}, h("h2", {id: "call"}, "Call"), holder);
};
