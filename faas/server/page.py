"""The page at /docs: one file, nothing fetched but this instance's own /openapi.json."""

PAGE = b"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Function</title>
<style>
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #59636e; --paper: #fff; --panel: #f5f6f8; --line: #d5d9de;
  --accent: #0b57d0; --bad: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e8eb; --soft: #9aa4af; --paper: #14171a; --panel: #1d2125;
  --line: #353b42; --accent: #8ab4f8; --bad: #f2938c; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 56rem; padding: 1rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: .5rem 0 0; overflow-wrap: anywhere; }
h2 { font-size: 1.05rem; margin: 0; overflow-wrap: anywhere; }
h3 { font-size: .8rem; margin: 1rem 0 .25rem; color: var(--soft); text-transform: uppercase; letter-spacing: .04em; }
p { margin: .25rem 0; } .soft { color: var(--soft); white-space: pre-line; }
section { border: 1px solid var(--line); border-radius: .5rem; margin: 1rem 0; padding: 1rem; }
code, pre, textarea { font: .875rem/1.45 ui-monospace, monospace; }
pre, textarea { background: var(--panel); border: 1px solid var(--line); border-radius: .375rem; color: inherit;
  margin: 0; padding: .6rem; width: 100%; }
pre { max-height: 24rem; overflow: auto; white-space: pre-wrap; overflow-wrap: anywhere; }
textarea { min-height: 6rem; resize: vertical; }
.row { align-items: center; display: flex; flex-wrap: wrap; gap: .75rem; margin: .5rem 0; }
button { background: var(--accent); border: 0; border-radius: .375rem; color: var(--paper); cursor: pointer;
  font: inherit; padding: .4rem 1.1rem; }
button:disabled { opacity: .5; cursor: default; }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
.verb { color: var(--accent); font-weight: 600; } .bad { color: var(--bad); }
input[type=file] { max-width: 100%; }
</style>
<header><h1 id="title">Function</h1><p class="soft" id="about"></p>
<p><a href="openapi.json">openapi.json</a></p></header>
<main id="main" aria-live="polite"><p class="soft">Loading...</p></main>
<script>
"use strict";
const make = (tag, text, kind) => {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (kind) made.className = kind;
  return made;
};
const pretty = value => JSON.stringify(value, null, 2);
const resolve = (spec, schema) => {
  while (schema && schema.$ref) schema = spec.components.schemas[schema.$ref.split("/").pop()];
  return schema || {};
};
const example = (spec, given, depth = 0) => {
  const schema = resolve(spec, given);
  if ("example" in schema) return schema.example;
  if ("default" in schema) return schema.default;
  if ("const" in schema) return schema.const;
  if (schema.enum) return schema.enum[0];
  if (schema.anyOf || schema.oneOf) return example(spec, (schema.anyOf || schema.oneOf)[0], depth);
  if (depth > 6) return null;
  const kind = Array.isArray(schema.type) ? schema.type[0] : schema.type;
  if (kind === "object") return Object.fromEntries(Object.entries(schema.properties || {})
    .map(([name, part]) => [name, example(spec, part, depth + 1)]));
  if (kind === "array") return Array.from({length: Math.min(schema.minItems ?? 1, 8)},
    (_, i) => example(spec, (schema.prefixItems || [])[i] ?? schema.items ?? {}, depth + 1));
  return {string: "text", integer: 1, number: 1.5, boolean: true}[kind] ?? null;
};
const schemaBlock = (spec, title, schema) => {
  const names = new Set(), parts = {};
  const visit = value => {
    if (!value || typeof value !== "object") return;
    if (typeof value.$ref === "string") {
      const name = value.$ref.split("/").pop();
      if (!names.has(name)) { names.add(name); parts[name] = spec.components.schemas[name]; visit(parts[name]); }
    }
    Object.values(value).forEach(visit);
  };
  visit(schema);
  const block = document.createDocumentFragment();
  block.append(make("h3", title), make("pre", pretty(names.size ? {...schema, where: parts} : schema)));
  return block;
};
const read = async (response, show) => {
  const kind = response.headers.get("content-type") || "";
  if (kind.startsWith("text/event-stream")) {
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let text = ""; ;) {
      const {done, value} = await reader.read();
      if (done) return;
      show(text += value);
    }
  }
  if (kind.includes("octet-stream")) return show(`${(await response.blob()).size} bytes`);
  const text = await response.text();
  try { show(pretty(JSON.parse(text))); } catch { show(text); }
};
const tryIt = (path, kind, input, streams) => {
  const box = document.createDocumentFragment();
  const row = make("div", undefined, "row"), send = make("button", "Call"), status = make("span", "", "soft");
  const cost = make("p", "", "soft"), out = make("pre");
  const wish = make("label"), check = make("input");
  out.hidden = true;
  check.type = "checkbox";
  wish.append(check, " as a stream of events");
  row.append(send, ...(streams ? [wish] : []), status);
  send.addEventListener("click", async () => {
    send.disabled = true; status.textContent = "waiting"; status.className = "soft"; cost.textContent = "";
    const began = performance.now();
    try {
      const body = input.type === "file" ? (input.files[0] ?? new Blob()) : input.value;
      const headers = {"Content-Type": kind, "Accept": check.checked ? "text/event-stream" : "application/json"};
      const response = await fetch("." + path, {method: "POST", headers, body});
      out.hidden = false; out.textContent = "";
      await read(response, text => { out.textContent = text; });
      status.textContent = `${response.status} in ${(performance.now() - began).toFixed(1)} ms`;
      status.className = response.ok ? "soft" : "bad";
      cost.textContent = ["server-timing", "x-batch-size", "x-cold-start", "x-request-id"]
        .map(name => [name, response.headers.get(name)]).filter(pair => pair[1] !== null)
        .map(pair => pair.join(": ")).join("\\n");
    } catch (error) { status.textContent = String(error); status.className = "bad"; }
    send.disabled = false;
  });
  box.append(row, cost, out);
  return box;
};
const endpoint = (spec, path, operation) => {
  const section = make("section"), heading = make("h2");
  heading.append(make("span", "POST ", "verb"), make("code", path));
  section.append(heading, make("p", operation.summary, "soft"));
  const content = (operation.requestBody || {}).content || {};
  const raw = "application/octet-stream" in content;
  const kind = raw ? "application/octet-stream" : "application/json";
  const input = make(raw ? "input" : "textarea");
  if (raw) input.type = "file";
  else input.value = operation.requestBody
    ? pretty(content[kind].example ?? example(spec, content[kind].schema)) : "{}";
  input.setAttribute("aria-label", "Body");
  input.spellcheck = false;
  if (operation.requestBody) section.append(schemaBlock(spec, "Takes", content[kind].schema));
  const answers = operation.responses["200"].content, first = Object.keys(answers)[0];
  section.append(schemaBlock(spec, "Gives", answers[first].schema), make("h3", "Try it"), input,
    tryIt(path, kind, input, "text/event-stream" in answers));
  return section;
};
fetch("openapi.json").then(response => response.json()).then(spec => {
  document.title = spec.info.title;
  document.getElementById("title").textContent = spec.info.title;
  document.getElementById("about").textContent = spec.info.description;
  document.getElementById("main").replaceChildren(
    ...Object.entries(spec.paths).map(([path, item]) => endpoint(spec, path, item.post)));
}).catch(error => {
  document.getElementById("main").replaceChildren(make("p", `The schema cannot be read: ${error}`, "bad"));
});
</script>
</html>
"""
