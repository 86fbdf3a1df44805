import assert from "node:assert/strict";
import { test } from "node:test";
import { paste } from "../src/editor/model/clipboard.ts";
import { read } from "../src/editor/model/document.ts";
import type { Editor } from "../src/editor/model/editor.ts";
import { begin, push, redo, undo } from "../src/editor/model/history.ts";
import { keepFormatting, matchLines } from "../src/editor/model/lines.ts";
import { readFlow, triesOf } from "../src/editor/model/flow.ts";
import { boundsOf, isAutomatic, placesOf } from "../src/editor/model/placing.ts";
import { freeName, whyNot } from "../src/editor/model/rules.ts";
import { EditorStore } from "../src/editor/model/store.ts";
import { durationOf, textOf, textsOf, typeOf, valueOf, valuesOf } from "../src/editor/model/values.ts";

const FLOW = `flow: f
steps:
  - name: a
    command: c
    data: [{dataset: p/d}]
  - name: b
    command: c
    after: [a]
  - name: c
    command: c
    after: [b]
    grid: {x: [1, 2], y: {min: 0, max: 1, steps: 3}}
`;
const flow = readFlow(read(FLOW).document);
const moment = (text: string) => ({ text, layout: {} });

test("arrows that make no sense are refused in words", () => {
  assert.equal(whyNot(flow, "a", "c"), null);
  assert.equal(whyNot(flow, "data:p/other", "a"), null);
  assert.equal(whyNot(flow, "c", "c"), "A step cannot wait for itself.");
  assert.equal(whyNot(flow, "a", "b"), "'b' waits for 'a' already.");
  assert.equal(whyNot(flow, "c", "a"), "These steps would wait for each other: c -> a -> b -> c.");
  assert.equal(whyNot(flow, "data:p/d", "a"), "'a' reads p/d already.");
  assert.match(whyNot(flow, "a", "data:p/d") ?? "", /^A dataset has no inputs/);
  assert.equal(whyNot(flow, "a", "nowhere"), "There is no step 'nowhere'.");
});

test("a new step gets a name that is free", () => {
  assert.equal(freeName(flow.steps, "train"), "train");
  assert.equal(freeName(flow.steps, "a"), "a-2");
  assert.equal(freeName(flow.steps, "a-2", ["a-2"]), "a-3");
});

test("a grid multiplies lists and ranges", () => {
  assert.deepEqual(flow.steps.map(triesOf), [1, 1, 6]);
});

test("undo and redo walk through what the file said; a burst of typing is one step", () => {
  let history = begin(moment("one"));
  history = push(history, moment("tw"), "typing", 1000);
  history = push(history, moment("two"), "typing", 1500);
  history = push(history, moment("three"), "typing", 9000);
  assert.equal(undo(history).now.text, "two");
  assert.equal(undo(undo(history)).now.text, "one");
  assert.equal(undo(undo(undo(history))).now.text, "one");
  assert.equal(redo(undo(history)).now.text, "three");
  assert.deepEqual(redo(push(undo(history), moment("else"), "", 9999)).future, []);
});

test("what was told of a deed is taken back with it", () => {
  const store = new EditorStore(moment(FLOW), "canvas");
  store.setText("flow: f\nsteps: []\n");
  store.say("Removed a, b, c. Undo restores it.");

  store.undo();

  assert.equal(store.state.said, null);
  assert.equal(store.now.text, FLOW);
});

test("nodes stand where they were put, else where the server laid them out, else beside what they follow", () => {
  const arranged = { "data:p/d": [1, 1], a: [2, 2], b: [3, 3] } as const;
  assert.deepEqual([...placesOf(flow, {}, arranged)], [...Object.entries(arranged), ["c", [267, 3]]]);
  assert.deepEqual(placesOf(flow, { a: [9, 9] }, arranged).get("b"), [273, 9]);
  assert.equal(isAutomatic(flow, { "data:p/loose": [0, 0] }), true);
  assert.equal(isAutomatic(flow, { b: [0, 0] }), false);
  assert.deepEqual(placesOf(flow, { "data:p/loose": [5, 5] }, arranged).get("data:p/loose"), [5, 5]);
});

test("a step that is renamed in the text keeps its place", () => {
  const store = new EditorStore({ text: FLOW, layout: { a: [7, 7], b: [8, 8] } }, "canvas");

  store.setText(FLOW.replace("name: b", "name: other"));

  assert.deepEqual(store.now.layout, { a: [7, 7], other: [8, 8] });
});

test("what cannot be read leaves the canvas as it was and can be undone", () => {
  const store = new EditorStore({ text: FLOW, layout: {} }, "canvas");

  store.setText(`${FLOW}  broken: [`);
  assert.equal(store.state.fault?.line, 13);
  assert.equal(store.state.flow.steps.length, 3);
  store.edit(() => assert.fail("an edit of what cannot be read"));
  assert.match(store.state.said?.words ?? "", /cannot be read at line/);
  store.undo();
  assert.equal(store.state.fault, null);
});

test("values are read as people mean them, and written so that they are read again", () => {
  assert.deepEqual(["0.1", "1e-3", "true", "yes", '"1"', "adam", " "].map(valueOf), [
    0.1,
    0.001,
    true,
    "yes",
    "1",
    "adam",
    "",
  ]);
  for (const value of [0.1, true, "1", "true", "a: b", "it's", "${{ parameters.x }}"])
    assert.deepEqual(valueOf(textOf(value)), value);
  assert.deepEqual(valuesOf('0.1, "a, b", c'), [0.1, "a, b", "c"]);
  assert.deepEqual(valuesOf(textsOf([1, "a, b", "2"])), [1, "a, b", "2"]);
  assert.deepEqual(valuesOf('\'a,b\', "x, \\"y, z", 5", c'), ["a,b", 'x, "y, z', '5"', "c"]);
  assert.equal(valuesOf('"\\"'.repeat(200_000)).length, 1);
  assert.deepEqual(["90", "30m", " "].map(durationOf), [90, "30m", undefined]);
});

test("a new parameter of a flow has the type of its default", () => {
  assert.deepEqual(["3", "-1", "0.5", "1.0", "1e-3", "true", "adam", '"3"'].map(typeOf), [
    "int",
    "int",
    "float",
    "float",
    "float",
    "bool",
    "str",
    "str",
  ]);
});

test("lines are matched, and only what was edited is taken from the edited text", () => {
  assert.deepEqual(matchLines(["a", "b", "c"], ["a", "x", "c"]), [
    [0, 0],
    [2, 2],
  ]);
  assert.equal(keepFormatting("a:   1\n\n\nb: 2\n", "a: 1\n\nb: 2\n", "a: 1\n\nb: 3\n"), "a:   1\n\n\nb: 3\n");
});

test("the canvas is fitted to where the nodes stand now, not to where they were drawn", () => {
  assert.deepEqual(
    boundsOf([
      [-20, 40],
      [300, 10],
    ]),
    { x: -20, y: 10, width: 528, height: 88 },
  );
  assert.deepEqual(boundsOf([]), { x: 0, y: 0, width: 0, height: 0 });
});

test("a copy of steps that wait for each other names its own steps in conditions and commands", () => {
  const text = `flow: f
steps:
  - name: train
    command: c
  - name: report
    command: cat "$NEARLINE_INPUT/train/n"
    after: [train]
    when: max(train.accuracy) > 0.9
`;
  const store = new EditorStore(moment(text), "canvas");

  paste({ store } as Editor, text);

  const [, , train, report] = read(store.now.text).document.toJS().steps;
  assert.equal(train.name, "train-2");
  assert.deepEqual(report, {
    name: "report-2",
    command: 'cat "$NEARLINE_INPUT/train-2/n"',
    after: ["train-2"],
    when: "max(train-2.accuracy) > 0.9",
  });
});
