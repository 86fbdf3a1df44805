// What can be written at a place of a flow file, from its JSON Schema and from what this installation knows.

import type { Completion, CompletionContext, CompletionResult } from "@codemirror/autocomplete";
import type { Choice } from "../model/editor.ts";

export type Schema = {
  $ref?: string;
  $defs?: Record<string, Schema>;
  properties?: Record<string, Schema>;
  additionalProperties?: boolean | Schema;
  items?: Schema;
  anyOf?: Schema[];
  oneOf?: Schema[];
  enum?: unknown[];
  const?: unknown;
  type?: string;
  title?: string;
  description?: string;
  default?: unknown;
};

export type Names = {
  steps: () => string[];
  templates: Choice[];
  resources: Choice[];
  pools: Choice[];
  datasets: Choice[];
  secrets: string[];
};

// Nobody completes words in a longer line, and to look for one takes the square of its length.
const LONGEST_LINE = 1000;

// Where the cursor stands: the keys that lead there, and whether a key or the value of one is being written.
type Spot = { path: string[]; isValue: boolean; start: number };

export function completer(schema: Schema, names: Names): (context: CompletionContext) => CompletionResult | null {
  return (context) => {
    const spot = spotAt(context.state.doc.toString(), context.pos);
    if (!spot || (!context.explicit && spot.start === context.pos && !spot.isValue)) return null;
    const options = spot.isValue ? valuesAt(schema, spot.path, names) : keysAt(schema, spot.path);
    return options.length > 0 ? { from: spot.start, options, validFor: /^[\w./@-]*$/ } : null;
  };
}

// What the schema says about a key.
export function describe(schema: Schema, path: readonly string[]): string {
  return walk(schema, path)[0]?.description ?? "";
}

function keysAt(schema: Schema, path: readonly string[]): Completion[] {
  return walk(schema, path).flatMap((place) =>
    Object.entries(place.properties ?? {}).map(([label, of]) => {
      const target = resolve(schema, of)[0];
      return {
        label,
        type: "property",
        apply: `${label}: `,
        detail: kindOf(target),
        info: of.description ?? target?.description ?? "",
      };
    }),
  );
}

function valuesAt(schema: Schema, path: readonly string[], names: Names): Completion[] {
  const key = path.findLast((part) => part !== "*") ?? "";
  const named = namesFor(key, path, names);
  if (named.length > 0) return named.map(({ name, detail }) => ({ label: name, detail, type: "constant" }));
  const options = walk(schema, path).flatMap(
    (place) =>
      place.enum ?? (place.const !== undefined ? [place.const] : place.type === "boolean" ? [true, false] : []),
  );
  return [...new Set(options.map(String))].map((label) => ({ label, type: "enum" }));
}

function namesFor(key: string, path: readonly string[], names: Names): Choice[] {
  const plain = (list: string[]) => list.map((name) => ({ name, detail: "" }));
  if (key === "after") return plain(names.steps());
  if (key === "compute" || key === "template") return names.templates;
  if (key === "dataset") return names.datasets;
  if (key === "resource") return names.resources;
  if (key === "pools") return names.pools;
  return key === "secrets" && path[0] === "steps" ? plain(names.secrets) : [];
}

// The schemas that a path leads to: several where a value may have several forms.
function walk(root: Schema, path: readonly string[]): Schema[] {
  let places = resolve(root, root);
  for (const part of path) {
    places = places.flatMap((place) => {
      const next =
        part === "*"
          ? place.items
          : (place.properties?.[part] ??
            (typeof place.additionalProperties === "object" ? place.additionalProperties : undefined));
      return next ? resolve(root, next) : [];
    });
  }
  return places;
}

function resolve(root: Schema, schema: Schema): Schema[] {
  if (schema.$ref) {
    const target = root.$defs?.[schema.$ref.replace("#/$defs/", "")];
    return target
      ? resolve(root, target).map((found) => ({ ...found, description: schema.description ?? found.description ?? "" }))
      : [];
  }
  const forms = schema.anyOf ?? schema.oneOf;
  return forms
    ? forms.flatMap((form) => resolve(root, { ...form, description: form.description ?? schema.description ?? "" }))
    : [schema];
}

function kindOf(schema: Schema | undefined): string {
  if (schema?.enum) return schema.enum.join(" | ");
  return (
    { object: "mapping", array: "list", string: "text", boolean: "true | false" }[schema?.type ?? ""] ??
    schema?.type ??
    ""
  );
}

// Reads indentation and brackets backwards from a position. Half-written files have to do, so this is no parser.
export function spotAt(text: string, position: number): Spot | null {
  const lines = text.slice(0, position).split("\n");
  const line = lines.pop() ?? "";
  if (line.length > LONGEST_LINE) return null;
  if (/^\s*#|\s#/.test(line) || isInBlock(lines, indentOf(line))) return null;
  const word = /[\w./@-]*$/.exec(line)?.[0] ?? "";
  const start = position - word.length;
  const before = line.slice(0, line.length - word.length);
  const flow = openBrackets(before);
  const outer = flow ? before.slice(0, flow.at) : before;
  const dash = /^(\s*)((?:- +)*)/.exec(outer) as RegExpExecArray;
  const key = /([\w-]+)\s*:\s+$|([\w-]+)\s*:$/.exec(outer.slice(dash[0].length).replace(/[[{]$/, ""))?.[1];
  const dashes = (dash[2] ?? "").match(/-/g)?.length ?? 0;
  const path = [...ancestors(lines, indentOf(line), dashes), ...Array<string>(dashes).fill("*")];
  if (key) path.push(key);
  if (!flow) return { path, isValue: Boolean(key) || isListOfValues(path, dashes), start };
  return { ...flow.spot(path), start };
}

// A dash under `after:` begins a value, one under `steps:` a key.
function isListOfValues(path: readonly string[], dashes: number): boolean {
  return dashes > 0 && ["after", "secrets", "compute", "pools", "choices", "outputs"].includes(path.at(-2) ?? "");
}

function indentOf(line: string): number {
  return /^\s*/.exec(line)?.[0].length ?? 0;
}

// The keys above, each less indented than the one below it. An entry of a list adds a `*`.
function ancestors(lines: readonly string[], indent: number, dashes: number): string[] {
  const path: string[] = [];
  let within = indent;
  let isItem = dashes > 0;
  for (const line of lines.toReversed()) {
    if (/^\s*(#|$)/.test(line)) continue;
    const own = indentOf(line);
    const [, marks = "", key = ""] = /^\s*((?:- +)*)([\w-]+)\s*:/.exec(line) ?? [];
    const column = own + marks.length;
    if (marks && column === within && !isItem) {
      // The line that begins the entry that this one belongs to.
      path.unshift("*");
      within = own;
      isItem = true;
      continue;
    }
    // A list may stand as far left as the key that it belongs to.
    if (key && !marks && (own < within || (own === within && isItem))) {
      path.unshift(key);
      within = own;
      isItem = false;
    } else if (key && marks && column < within) {
      path.unshift("*", key);
      within = own;
      isItem = true;
    }
    if (within === 0 && !isItem) break;
  }
  return path;
}

// Whether the line is inside of a text that began with `|` or `>`.
function isInBlock(lines: readonly string[], indent: number): boolean {
  const opener = lines.findLast((line) => line.trim() !== "" && indentOf(line) < indent);
  return opener !== undefined && /[:-]\s+[|>][+-]?\d?\s*$/.test(opener);
}

type Flow = { at: number; spot: (path: string[]) => { path: string[]; isValue: boolean } };

function openBrackets(text: string): Flow | null {
  const open: number[] = [];
  for (const [index, sign] of [...text].entries()) {
    if ("[{".includes(sign)) open.push(index);
    else if ("]}".includes(sign)) open.pop();
  }
  const [first] = open;
  if (first === undefined) return null;
  return {
    at: first,
    spot: (outer) => {
      const path = [...outer];
      for (const [level, index] of open.entries()) {
        const inside = text.slice(index + 1, open[level + 1] ?? text.length);
        const entry = inside.split(",").at(-1) ?? "";
        if (text[index] === "[") path.push("*");
        const key = /([\w-]+)\s*:\s*[[{]?$/.exec(entry)?.[1];
        if (key && text[index] === "{") path.push(key);
        if (level === open.length - 1) return { path, isValue: text[index] === "[" ? true : key !== undefined };
      }
      return { path, isValue: false };
    },
  };
}
