// The edits of a flow, each a change of the YAML document that leaves all else alone. They assume that the file can be
// read; names of steps are unique (where they are not, the first one counts).

import { type Document, isMap, isScalar, isSeq, type Node, Scalar, type YAMLMap, YAMLSeq } from "yaml";
import { NO_RETRIES, type Retries } from "./flow.ts";

export type Raw = Record<string, unknown>;
type Path = readonly (string | number)[];

export function addSteps(document: Document, steps: readonly Raw[]): void {
  const list = stepsOf(document);
  for (const step of steps) {
    const node = document.createNode(step) as YAMLMap;
    for (const { key, value } of node.items) tidy(String(key), value as Node | null);
    if (list.items.length > 0)
      node.spaceBefore = isSeq(list) && (list.items.at(-1) as YAMLMap | undefined)?.spaceBefore === true;
    list.add(node);
  }
}

export function removeSteps(document: Document, names: ReadonlySet<string>): void {
  const list = stepsOf(document);
  list.items = list.items.filter((step) => !names.has(nameOf(step)));
  list.flow = list.items.length === 0;
  for (const [index, step] of list.items.entries()) {
    const after = isMap(step) ? textsOf(step.get("after", true)) : [];
    if (after.some((parent) => names.has(parent))) {
      setIn(
        document,
        ["steps", index, "after"],
        after.filter((parent) => !names.has(parent)),
      );
    }
  }
}

// A step's new name follows into what refers to it: arrows, conditions, and the folder that children read it from.
export function renameStep(document: Document, before: string, now: string): void {
  // A name that is no name yet may hold signs of regular expressions.
  const escaped = before.replace(/[\\^$.*+?()[\]{}|/-]/g, "\\$&");
  const inCondition = new RegExp(`(?<![\\w./"'-])${escaped}(?=\\.)`, "g");
  const inFolder = new RegExp(`(NEARLINE_INPUT\\}?"?/)${escaped}(?![\\w-])`, "g");
  for (const [index, step] of stepsOf(document).items.entries()) {
    if (!isMap(step)) continue;
    const path = ["steps", index];
    const after = textsOf(step.get("after", true));
    if (after.includes(before)) {
      for (const [position, parent] of after.entries())
        if (parent === before) document.setIn([...path, "after", position], now);
      replaceText(document, [...path, "when"], inCondition, () => now);
      replaceText(document, [...path, "command"], inFolder, (_, start: string) => start + now);
    }
    if (nameOf(step) === before) setIn(document, [...path, "name"], now);
  }
}

export function connect(document: Document, parent: string, child: string): void {
  const index = indexOf(document, child);
  const after = textsOf(document.getIn(["steps", index, "after"], true));
  if (index >= 0 && !after.includes(parent)) setIn(document, ["steps", index, "after"], [...after, parent]);
}

export function disconnect(document: Document, parent: string, child: string): void {
  const index = indexOf(document, child);
  const after = textsOf(document.getIn(["steps", index, "after"], true));
  if (index >= 0)
    setIn(
      document,
      ["steps", index, "after"],
      after.filter((name) => name !== parent),
    );
}

export function addData(document: Document, dataset: string, child: string): void {
  const index = indexOf(document, child);
  if (index < 0) return;
  const path = ["steps", index, "data"];
  const list = document.getIn(path, true);
  if (isSeq(list)) list.add(flowNode(document, { dataset, cached: true }));
  else setIn(document, path, [{ dataset, cached: true }]);
}

export function removeData(document: Document, dataset: string, child?: string): void {
  for (const [index, step] of stepsOf(document).items.entries()) {
    const list = isMap(step) && (child === undefined || nameOf(step) === child) ? step.get("data", true) : null;
    if (!isSeq(list)) continue;
    list.items = list.items.filter((item) => !(isMap(item) && item.get("dataset") === dataset));
    if (list.items.length === 0) document.deleteIn(["steps", index, "data"]);
  }
}

export function replaceDataset(document: Document, before: string, now: string): void {
  for (const step of stepsOf(document).items) {
    const list = isMap(step) ? step.get("data", true) : null;
    for (const item of isSeq(list) ? list.items : []) {
      if (isMap(item) && item.get("dataset") === before) item.set("dataset", now);
    }
  }
}

// Sets a key of a step; undefined removes it.
export function setStep(document: Document, name: string, path: Path, value: unknown): void {
  const index = indexOf(document, name);
  if (index >= 0) setIn(document, ["steps", index, ...path], value);
}

// The four budgets, written as short as they can be read back.
export function setRetries(document: Document, name: string, retries: Retries): void {
  const given = Object.entries(retries).filter(([kind, count]) => count !== NO_RETRIES[kind as keyof Retries]);
  setStep(document, name, ["retries"], given.length > 0 ? Object.fromEntries(given) : undefined);
}

// Renames a key of a mapping where it stands, with its comments.
export function renameKey(document: Document, path: Path, before: string, now: string): void {
  const map = document.getIn(path, true);
  const pair = isMap(map) ? map.items.find(({ key }) => String(key) === before) : undefined;
  if (!pair || (isMap(map) && map.has(now))) return;
  if (isScalar(pair.key)) pair.key.value = now;
  else pair.key = new Scalar(now);
}

// Puts a value at a path and keeps what surrounds it: a scalar keeps its comment and its quotes, a list its style.
export function setIn(document: Document, path: Path, value: unknown): void {
  const parent = path.slice(0, -1);
  if (value === undefined || (Array.isArray(value) && value.length === 0) || isEmptyMapping(value)) {
    if (document.hasIn(path)) document.deleteIn(path);
    const left = parent.length > 2 ? document.getIn(parent, true) : null;
    if ((isMap(left) || isSeq(left)) && left.items.length === 0) document.deleteIn(parent);
    return;
  }
  const old = document.getIn(path, true);
  if (isScalar(old) && typeof value !== "object") {
    const wasBlock = old.type === Scalar.BLOCK_LITERAL || old.type === Scalar.BLOCK_FOLDED;
    if (typeof value !== "string" || (wasBlock && !value.includes("\n"))) old.type = Scalar.PLAIN;
    delete old.format;
    delete old.minFractionDigits;
    old.value = value;
    return;
  }
  const node = document.createNode(value) as Node;
  tidy(String(path.findLast((part) => typeof part === "string") ?? ""), node);
  if ((isSeq(node) || isMap(node)) && (isSeq(old) || isMap(old))) {
    node.flow = old.flow ?? false;
    node.comment = old.comment ?? null;
    keepItems(node, old);
  }
  for (let length = 1; length < path.length; length++) {
    const here = document.getIn(path.slice(0, length), true);
    // `data:` with nothing behind it, or a scalar where a collection has to be.
    if (!isMap(here) && !isSeq(here))
      document.setIn(path.slice(0, length), document.createNode(typeof path[length] === "number" ? [] : {}));
  }
  document.setIn(path, node);
}

// Items that stay as they were keep their nodes, and with them their comments and style.
function keepItems(now: YAMLMap | YAMLSeq, old: YAMLMap | YAMLSeq): void {
  if (!isSeq(now) || !isSeq(old)) return;
  const known = new Map(old.items.map((item) => [JSON.stringify((item as Node).toJSON()), item]));
  now.items = now.items.map((item) => known.get(JSON.stringify((item as Node).toJSON())) ?? item);
}

const SHORT = new Set(["after", "secrets", "outputs", "compute", "choices", "data", "retries"]);

// Short lists are written on one line, and inside of data and parameters each entry.
function tidy(key: string, node: Node | null): void {
  if (isSeq(node)) {
    node.flow = SHORT.has(key);
    if (key === "compute" && node.items.some(isMap)) node.flow = false;
    for (const item of node.items) if (isMap(item)) item.flow = true;
  } else if (isMap(node)) {
    node.flow = SHORT.has(key);
    for (const { value } of node.items) if (isMap(value) || isSeq(value)) value.flow = true;
  }
}

function flowNode(document: Document, value: Raw): Node {
  const node = document.createNode(value) as YAMLMap;
  node.flow = true;
  return node;
}

function stepsOf(document: Document): YAMLSeq {
  const list = document.get("steps", true);
  if (isSeq(list)) {
    if (list.items.length === 0) list.flow = false;
    return list;
  }
  if (!isMap(document.contents)) document.contents = document.createNode({});
  const made = new YAMLSeq();
  document.set("steps", made);
  return made;
}

function indexOf(document: Document, name: string): number {
  return stepsOf(document).items.findIndex((step) => nameOf(step) === name);
}

function nameOf(step: unknown): string {
  return isMap(step) ? String(step.get("name") ?? "") : "";
}

function textsOf(list: unknown): string[] {
  return isSeq(list) ? list.items.map((item) => String(isScalar(item) ? item.value : item)) : [];
}

function replaceText(document: Document, path: Path, pattern: RegExp, by: (...found: string[]) => string): void {
  const node = document.getIn(path, true);
  if (isScalar(node) && typeof node.value === "string") node.value = node.value.replace(pattern, by);
}

function isEmptyMapping(value: unknown): boolean {
  return typeof value === "object" && value !== null && !Array.isArray(value) && Object.keys(value).length === 0;
}
