import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { completer, type Schema, spotAt } from "../src/editor/text/completion.ts";

const schema = JSON.parse(
  readFileSync(new URL("../../../../docs/reference/flow.schema.json", import.meta.url), "utf8"),
) as Schema;
const names = {
  steps: () => ["prepare", "train"],
  templates: [{ name: "lab.small", detail: "1 CPU" }],
  resources: [{ name: "lab", detail: "simulated" }],
  pools: [{ name: "h100", detail: "" }],
  datasets: [{ name: "demo/digits", detail: "" }],
  secrets: ["API_KEY"],
};

// `^` marks the cursor.
function labels(marked: string): string[] {
  const pos = marked.indexOf("^");
  const text = marked.replace("^", "");
  const context = { pos, explicit: true, state: { doc: { toString: () => text } } };
  return completer(schema, names)(context as never)?.options.map(({ label }) => label) ?? [];
}

const spot = (marked: string) => spotAt(marked.replace("^", ""), marked.indexOf("^"))?.path.join(".");

test("the keys of the flow are offered at its left edge", () => {
  assert.deepEqual(labels("flow: x\n^"), ["schema_version", "flow", "title", "description", "parameters", "steps"]);
});

test("the keys of a step are offered in it, on the line of its dash and below", () => {
  for (const text of [
    "steps:\n  - ^",
    "steps:\n- ^",
    "steps:\n  - name: a\n    co^",
    "steps:\n- name: a\n  ^",
    "steps: [{na^",
  ]) {
    assert.ok(labels(text).includes("command"), text);
    assert.ok(!labels(text).includes("steps"), text);
  }
});

test("the names of steps, templates, datasets and secrets are offered where they belong", () => {
  const step = "steps:\n  - name: a\n    command: b\n";
  assert.deepEqual(labels(`${step}    after: [^`), ["prepare", "train"]);
  assert.deepEqual(labels(`${step}    after: [prepare, tr^`), ["prepare", "train"]);
  assert.deepEqual(labels(`${step}    after:\n      - ^`), ["prepare", "train"]);
  assert.deepEqual(labels(`${step}    compute: ^`), ["lab.small"]);
  assert.deepEqual(labels(`${step}    compute: [{template: ^`), ["lab.small"]);
  assert.deepEqual(labels(`${step}    resource: ^`), ["lab"]);
  assert.deepEqual(labels(`${step}    pools: [^`), ["h100"]);
  assert.deepEqual(labels(`${step}    data: [{dataset: ^`), ["demo/digits"]);
  assert.deepEqual(labels(`${step}    data:\n      - dataset: ^`), ["demo/digits"]);
  assert.deepEqual(labels(`${step}    secrets: [^`), ["API_KEY"]);
});

test("the values of a choice are offered, and truths", () => {
  assert.deepEqual(labels("parameters:\n  lr: {type: ^"), ["float", "int", "str", "bool"]);
  assert.deepEqual(labels("parameters:\n  lr:\n    type: ^"), ["float", "int", "str", "bool"]);
  assert.deepEqual(labels("steps:\n  - name: a\n    append_parameters: ^"), ["true", "false"]);
  assert.deepEqual(labels("steps:\n  - grid: {C: {scale: ^"), ["linear", "log"]);
  assert.ok(labels("parameters:\n  lr: {type: float, ^").includes("default"));
});

test("nothing is offered in comments and in commands of several lines", () => {
  assert.deepEqual(labels("flow: x # co^"), []);
  assert.deepEqual(labels("steps:\n  - command: |\n      co^"), []);
});

test("the place is found through comments, empty lines and other entries", () => {
  assert.equal(
    spot(
      "steps:\n\n  - name: a\n    # why\n    env:\n      A: b\n  - name: c\n    data:\n      - dataset: d\n        ^",
    ),
    "steps.*.data.*",
  );
});

test("a line that nobody writes by hand gets no words, however long it is", () => {
  assert.equal(spotAt(`a: ${"x".repeat(1_000_000)}`, 1_000_003), null);
});
