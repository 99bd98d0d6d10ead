"use strict";
// Renders an OpenAPI document. Everything is put in as text, never as HTML:
// the documents hold what offerings say of themselves.

const verbs = ["get", "post", "put", "patch", "delete"];
const byId = (id) => document.getElementById(id);

function el(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) node.setAttribute(name, value);
  for (const child of children.flat()) {
    if (child !== null && child !== undefined) node.append(child);
  }
  return node;
}

let spec = {};

function resolve(thing) {
  for (let hops = 0; thing && thing.$ref && hops < 20; hops++) {
    if (!thing.$ref.startsWith("#/")) return {};
    let target = spec;
    for (const part of thing.$ref.slice(2).split("/")) {
      target = (target || {})[part.replaceAll("~1", "/").replaceAll("~0", "~")];
    }
    thing = target;
  }
  return thing || {};
}

const schemaName = (schema) => (schema && schema.$ref ? schema.$ref.split("/").pop() : "");

function typeOf(schema) {
  if (!schema || schema === true) return "anything";
  if (schemaName(schema)) return schemaName(schema);
  if (schema.items) return "list of " + typeOf(schema.items);
  if (schema.allOf || schema.anyOf || schema.oneOf) {
    const joint = schema.allOf ? " and " : " or ";
    return (schema.allOf || schema.anyOf || schema.oneOf).map(typeOf).join(joint);
  }
  let type = Array.isArray(schema.type) ? schema.type.join(" or ") : schema.type || "anything";
  if (type === "object" && schema.additionalProperties && typeof schema.additionalProperties === "object") {
    type = "map to " + typeOf(schema.additionalProperties);
  }
  return schema.format ? type + " (" + schema.format + ")" : type;
}

function typeNode(schema) {
  const inner = schema && schema.items ? schema.items : schema;
  const name = schemaName(inner);
  if (!name) return el("span", { class: "type" }, typeOf(schema));
  const link = el("a", { href: "#schema-" + name, class: "type" }, name);
  return inner === schema ? link : el("span", { class: "type" }, "list of ", link);
}

function limits(schema) {
  const words = [];
  const say = (key, text) => { if (schema[key] !== undefined) words.push(text + " " + JSON.stringify(schema[key])); };
  say("const", "always"); say("default", "default"); say("minLength", "at least characters:"); say("maxLength", "at most characters:");
  say("minimum", "at least"); say("maximum", "at most"); say("pattern", "matches");
  if (schema.enum) words.push("one of " + schema.enum.map((v) => JSON.stringify(v)).join(", "));
  return words.join("; ");
}

function flatten(schema, into, need) {
  schema = resolve(schema);
  for (const part of schema.allOf || []) flatten(part, into, need);
  for (const name of schema.required || []) need.add(name);
  for (const [name, property] of Object.entries(schema.properties || {})) into.set(name, property);
}

function schemaTable(schema) {
  const properties = new Map();
  const need = new Set();
  flatten(schema, properties, need);
  if (properties.size === 0) return el("p", {}, typeNode(schema), " ", limits(resolve(schema)));
  const rows = [...properties].map(([name, property]) => el("tr", {},
    el("td", {}, name, need.has(name) ? el("span", { class: "need", title: "required" }, " *") : null),
    el("td", {}, typeNode(property)),
    el("td", {}, [resolve(property).description || property.description, limits(resolve(property))].filter(Boolean).join(". "))));
  return el("table", {}, el("tbody", {}, rows));
}

function example(schema, depth = 0) {
  schema = resolve(schema);
  if (schema.example !== undefined) return schema.example;
  if (Array.isArray(schema.examples) && schema.examples.length) return schema.examples[0];
  if (schema.const !== undefined) return schema.const;
  if (schema.default !== undefined) return schema.default;
  if (schema.enum) return schema.enum[0];
  if (depth > 6) return null;
  const type = Array.isArray(schema.type) ? schema.type[0] : schema.type;
  if (schema.properties || schema.allOf) {
    const properties = new Map();
    flatten(schema, properties, new Set());
    return Object.fromEntries([...properties].map(([name, property]) => [name, example(property, depth + 1)]));
  }
  if (schema.anyOf || schema.oneOf) return example((schema.anyOf || schema.oneOf)[0], depth + 1);
  if (type === "array") return schema.items ? [example(schema.items, depth + 1)] : [];
  if (type === "object") return {};
  if (type === "integer" || type === "number") return schema.minimum || 0;
  if (type === "boolean") return false;
  if (schema.format === "date-time") return "2030-01-01T00:00:00Z";
  return type === "string" ? "text" : null;
}

function contentNodes(content) {
  return Object.entries(content || {}).map(([media, body]) => {
    const shown = body.example !== undefined ? body.example : example(body.schema);
    return el("div", {}, el("p", {}, el("code", {}, media), " ", typeNode(body.schema)),
      schemaName(body.schema) ? null : schemaTable(body.schema),
      el("details", {}, el("summary", {}, "Example"),
        el("pre", {}, typeof shown === "string" ? shown : JSON.stringify(shown, null, 2))));
  });
}

const anchor = (verb, path) => "op-" + verb + path.replace(/[^A-Za-z0-9]+/g, "-");

function operationNode(verb, path, item, operation) {
  const parameters = [...(item.parameters || []), ...(operation.parameters || [])].map(resolve);
  const open = Array.isArray(operation.security) && operation.security.length === 0;
  const node = el("section", { id: anchor(verb, path) },
    el("h2", {}, el("span", { class: "verb " + verb }, verb.toUpperCase()), " ", el("span", { class: "path" }, path)),
    el("p", {}, el("strong", {}, operation.summary || "")),
    operation.description ? el("p", {}, operation.description) : null,
    el("p", {}, open ? "No token needed." : "Needs a bearer token."));
  if (parameters.length) {
    node.append(el("h3", {}, "Parameters"), el("table", {}, el("tbody", {}, parameters.map((p) => el("tr", {},
      el("td", {}, p.name, p.required ? el("span", { class: "need" }, " *") : null),
      el("td", {}, p.in, " ", typeNode(p.schema)),
      el("td", {}, [p.description, limits(resolve(p.schema))].filter(Boolean).join(". ")))))));
  }
  const body = resolve(operation.requestBody);
  if (body.content) node.append(el("h3", {}, "Body"), ...contentNodes(body.content));
  node.append(el("h3", {}, "Answers"));
  for (const [status, answer] of Object.entries(operation.responses || {})) {
    const said = resolve(answer);
    node.append(el("details", status < "300" ? { open: "" } : {},
      el("summary", {}, el("code", {}, status), " ", said.description || ""), ...contentNodes(said.content)));
  }
  return node;
}

function render() {
  const wanted = byId("find").value.trim().toLowerCase();
  const groups = new Map();
  const sections = [];
  for (const [path, item] of Object.entries(spec.paths || {})) {
    for (const verb of verbs) {
      const operation = item[verb];
      if (!operation) continue;
      const words = [verb, path, operation.summary, operation.description, operation.operationId].join(" ").toLowerCase();
      if (wanted && !words.includes(wanted)) continue;
      const tag = (operation.tags || ["operations"])[0];
      if (!groups.has(tag)) groups.set(tag, []);
      groups.get(tag).push(el("a", { href: "#" + anchor(verb, path) }, el("span", { class: "verb " + verb }, verb.toUpperCase()), path));
      sections.push(operationNode(verb, path, item, operation));
    }
  }
  const info = spec.info || {};
  const schemas = Object.entries((spec.components || {}).schemas || {})
    .filter(([name]) => !wanted || name.toLowerCase().includes(wanted));
  byId("contents").replaceChildren(
    ...[...groups].flatMap(([tag, links]) => [el("h2", {}, tag), ...links]),
    el("h2", {}, "Schemas"), ...schemas.map(([name]) => el("a", { href: "#schema-" + name }, name)));
  byId("page").replaceChildren(
    el("h2", {}, info.title || "", " ", el("small", {}, info.version || "")),
    ...(info.description || "").split("\n\n").map((text) => el("p", {}, text)),
    ...sections,
    ...schemas.map(([name, schema]) => el("section", { id: "schema-" + name },
      el("h2", {}, name), schema.description ? el("p", {}, schema.description) : null, schemaTable(schema))));
  if (!sections.length && !schemas.length) byId("page").append(el("p", {}, "Nothing matches."));
}

async function load(url) {
  try {
    const answer = await fetch(url);
    if (!answer.ok) throw new Error("the server answered " + answer.status);
    spec = await answer.json();
    byId("raw").href = url;
    render();
    const target = location.hash && document.getElementById(location.hash.slice(1));
    if (target) target.scrollIntoView();
  } catch (problem) {
    byId("page").replaceChildren(el("p", { class: "error" }, "Cannot show " + url + ": " + problem.message));
  }
}

async function start() {
  const select = byId("documents");
  const answer = await fetch("/docs/documents.json");
  const list = (await answer.json()).items || [];
  for (const item of list) select.append(el("option", { value: item.url }, item.title));
  select.addEventListener("change", () => { history.replaceState(null, "", "#"); load(select.value); });
  byId("find").addEventListener("input", render);
  if (list.length) load(list[0].url);
}

start().catch((problem) => byId("page").replaceChildren(el("p", { class: "error" }, problem.message)));
