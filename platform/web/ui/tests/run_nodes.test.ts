import assert from "node:assert/strict";
import { test } from "node:test";
import { type Box, edgesOf, firstView, nameOf, patchNodes, type Picture } from "../src/run/nodes.ts";

const LOOKS = {
  running: { word: "Running", css: "running", icon: "player-play" },
  succeeded: { word: "Succeeded", css: "succeeded", icon: "circle-check" },
};

function box(id: string, facts: Partial<Box> = {}): Box {
  return {
    id,
    kind: "command",
    title: id,
    subtitle: "",
    note: "",
    said: "",
    state: "running",
    bar: [],
    isCritical: false,
    step: id,
    index: null,
    group: "",
    link: "",
    x: 28,
    y: 28,
    ...facts,
  };
}

function picture(...nodes: Box[]): Picture {
  return { width: 264, height: 114, nodes, edges: [], looks: LOOKS };
}

test("only the nodes that differ are other objects than before", () => {
  const before = patchNodes([], picture(box("a"), box("b")), "");
  const after = patchNodes(before, picture(box("a"), box("b", { state: "succeeded" })), "");

  assert.equal(after[0], before[0]);
  assert.notEqual(after[1], before[1]);
  assert.equal(after[1]?.data.state?.word, "Succeeded");
});

test("choosing a step changes two nodes and no other", () => {
  const before = patchNodes([], picture(box("a"), box("b"), box("c")), "a:0");
  const after = patchNodes(before, picture(box("a"), box("b"), box("c")), "b:0");

  assert.deepEqual(
    after.map((node) => node.selected),
    [false, true, false],
  );
  assert.deepEqual(
    after.map((node, place) => node === before[place]),
    [false, false, true],
  );
});

test("a group that is opened takes the place of its one box", () => {
  const group = box("group:a", { kind: "group", step: "", group: "a", bar: [["running", 0, 182]] });
  const before = patchNodes([], picture(group), "group:a");
  const after = patchNodes(
    before,
    picture(box("step:a:0", { step: "a", index: 0 }), box("step:a:1", { step: "a", index: 1 })),
    "",
  );

  assert.deepEqual(
    before.map((node) => [node.data.kind, node.selected]),
    [["group", true]],
  );
  assert.deepEqual(
    after.map((node) => node.id),
    ["step:a:0", "step:a:1"],
  );
});

test("what a box is called in the address", () => {
  assert.equal(nameOf(box("x", { step: "train", index: 2 })), "train:2");
  assert.equal(nameOf(box("x", { step: "train" })), "train:0");
  assert.equal(nameOf(box("x", { step: "", group: "train" })), "group:train");
  assert.equal(nameOf(box("x", { step: "", link: "/datasets/a/b/" })), "");
});

test("a node says its state in words, not by colour alone", () => {
  const [node] = patchNodes([], picture(box("a", { subtitle: "lab.gpu-1", said: "waits for b" })), "");

  assert.equal(node?.ariaLabel, "a, lab.gpu-1, Running, waits for b");
});

test("arrows between steps of the critical path are marked", () => {
  const drawn = {
    ...picture(box("a", { isCritical: true }), box("b", { isCritical: true }), box("c")),
    edges: [
      ["a", "b"],
      ["a", "c"],
    ],
  };

  assert.deepEqual(
    edgesOf(drawn as Picture).map((edge) => edge.className),
    ["critical", ""],
  );
});

test("all is shown where it can be read, else the step that is chosen, and never beyond the edge", () => {
  assert.deepEqual(firstView(picture(box("a")), "", 1140, 150), { x: 438, y: 1, zoom: 1 });
  assert.equal(firstView({ ...picture(box("a")), width: 2280 }, "", 1140, 150).zoom, 0.5);
  assert.equal(firstView({ ...picture(box("a")), width: 2280 }, "", 1140, 150).x, 0);

  const wide = { ...picture(box("a"), box("z", { x: 9000, y: 28 })), width: 9264, height: 114 };
  assert.equal(firstView(wide, "z:0", 1140, 520).x, 1140 - 9264 * 0.8);
  assert.equal(firstView(wide, "a:0", 1140, 520).x, 0);
  assert.equal(firstView(wide, "a:0", 1140, 520).y, (520 - 34 - 114 * 0.8) / 2);
});
