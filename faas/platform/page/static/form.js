// A form from a JSON Schema. What has no plain control of its own is written as JSON.

import {h} from "./dom.js";

const MAX_DEPTH = 4;

const resolve = (spec, schema) => {
  for (let depth = 0; schema?.$ref && depth < 16; depth += 1) {
    schema = schema.$ref
      .split("/")
      .slice(1)
      .reduce((part, key) => part?.[key], spec);
  }
  return schema ?? {};
};

// A value that fits, to begin with.
export const example = (spec, given, depth = 0) => {
  const schema = resolve(spec, given);
  for (const name of ["example", "default", "const"]) if (name in schema) return schema[name];
  if (schema.examples?.length) return schema.examples[0];
  if (schema.enum) return schema.enum[0];
  const choices = schema.anyOf ?? schema.oneOf;
  if (choices) return example(spec, choices[0], depth);
  if (depth > 6) return null;
  const kind = Array.isArray(schema.type) ? schema.type[0] : schema.type;
  if (kind === "object") {
    return Object.fromEntries(
      Object.entries(schema.properties ?? {}).map(([name, part]) => [name, example(spec, part, depth + 1)]),
    );
  }
  if (kind === "array") {
    return Array.from({length: Math.min(schema.prefixItems?.length ?? schema.minItems ?? 1, 8)}, (_, i) =>
      example(spec, schema.prefixItems?.[i] ?? schema.items ?? {}, depth + 1),
    );
  }
  return {string: "text", integer: 1, number: 1.5, boolean: true}[kind] ?? null;
};

let count = 0;

const labelled = (title, schema, control, isRequired) => {
  control.id = `field-${(count += 1)}`;
  const about = schema.description
    ? h("span", {class: "soft hint", id: `${control.id}-hint`}, schema.description)
    : null;
  if (about) control.setAttribute("aria-describedby", about.id);
  const text = h("label", {for: control.id}, title, isRequired ? null : h("span", {class: "soft"}, " optional"));
  return h("div", {class: control.type === "checkbox" ? "field check" : "field"}, text, control, about);
};

// Each kind gives an element and `read`, which returns the value, or undefined for what is left out; it throws for
// what cannot be read.
const kinds = {
  boolean: (title, schema, value, isRequired) => {
    const control = h("input", {type: "checkbox"});
    control.checked = Boolean(value);
    return {element: labelled(title, schema, control, true), read: () => control.checked};
  },
  number: (title, schema, value, isRequired) => {
    const control = h("input", {
      type: "number",
      step: schema.type === "integer" ? 1 : "any",
      min: schema.minimum,
      max: schema.maximum,
    });
    control.value = value ?? "";
    const read = () => {
      if (control.value === "" && !isRequired) return undefined;
      if (!control.checkValidity() || control.value === "")
        throw new Error(`${title}: ${control.validationMessage || "a number is needed"}`);
      return Number(control.value);
    };
    return {element: labelled(title, schema, control, isRequired), read};
  },
  string: (title, schema, value, isRequired) => {
    const control = h("textarea", {rows: 2, maxlength: schema.maxLength, spellcheck: "false"});
    control.value = value ?? "";
    return {
      element: labelled(title, schema, control, isRequired),
      read: () => (control.value === "" && !isRequired ? undefined : control.value),
    };
  },
  choice: (title, schema, value, isRequired) => {
    const options = schema.enum.map((one, i) => h("option", {value: i, selected: one === value}, String(one)));
    const control = h("select", {}, options);
    return {element: labelled(title, schema, control, isRequired), read: () => schema.enum[Number(control.value)]};
  },
  json: (title, schema, value, isRequired) => {
    const control = h("textarea", {rows: 3, class: "code", spellcheck: "false"});
    control.value = value === undefined ? "" : JSON.stringify(value, null, 1).replace(/\n\s*/g, " ");
    const read = () => {
      if (control.value.trim() === "" && !isRequired) return undefined;
      try {
        return JSON.parse(control.value);
      } catch (error) {
        throw new Error(`${title} is not JSON: ${error.message}`);
      }
    };
    return {element: labelled(`${title} (JSON)`, schema, control, isRequired), read};
  },
};

const kindOf = schema => {
  if (schema.enum?.every(one => typeof one !== "object")) return "choice";
  if (schema.type === "string" && !schema.contentEncoding) return "string";
  if (schema.type === "integer" || schema.type === "number") return "number";
  return schema.type === "boolean" ? "boolean" : "json";
};

// Of several forms that a value may have: at the top the first, which is the plainest; within, the only one but null.
const chosen = (spec, schema, depth) => {
  const choices = (schema.anyOf ?? schema.oneOf ?? [])
    .map(one => resolve(spec, one))
    .filter(one => one.type !== "null");
  return choices.length === 1 || (choices.length && !depth)
    ? {...choices[0], description: schema.description ?? choices[0].description}
    : schema;
};

// Build the controls for `given`; `value` is what they begin with.
export const build = (spec, given, value, title = "Body", isRequired = true, depth = 0) => {
  const whole = resolve(spec, given),
    schema = chosen(spec, whole, depth);
  if (whole !== schema && (whole.anyOf ?? whole.oneOf).some(one => one.type === "null")) {
    const {element, read} = build(spec, schema, value ?? undefined, title, false, depth);
    return {element, read: () => read() ?? (isRequired ? null : undefined)};
  }
  const parts = Object.entries(schema.properties ?? {});
  if (schema.type !== "object" || !parts.length || depth > MAX_DEPTH) {
    return kinds[kindOf(schema)](title, schema, value, isRequired);
  }
  const required = new Set(schema.required ?? []);
  const made = parts.map(([name, part]) => [
    name,
    build(spec, part, value?.[name], name, required.has(name), depth + 1),
  ]);
  const element = h(
    depth ? "fieldset" : "div",
    {class: "fields"},
    depth ? h("legend", {}, title) : null,
    made.map(([, field]) => field.element),
  );
  const read = () => {
    const values = made.map(([name, field]) => [name, field.read()]).filter(([, one]) => one !== undefined);
    return Object.fromEntries(values);
  };
  return {element, read};
};
