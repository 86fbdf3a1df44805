import assert from "node:assert/strict";
import { test } from "node:test";
import { flatRange } from "../src/chart_range.ts";

test("the chart of an idle job's cores reaches to one core", () => {
  assert.deepEqual(flatRange(0, 0), [0, 1]);
  assert.deepEqual(flatRange(null, null), [0, 1]);
});

test("a line without change is drawn in the middle of its own size", () => {
  assert.deepEqual(flatRange(3, 3), [0, 6]);
  assert.deepEqual(flatRange(-2, -2), [-4, 0]);
});

test("a line that changes is scaled by the library", () => {
  assert.equal(flatRange(0, 3.5), null);
});
