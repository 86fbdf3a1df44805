import assert from "node:assert/strict";
import { test } from "node:test";
import { paint } from "../src/ansi.ts";
import { splitLines } from "../src/log_lines.ts";

Object.assign(globalThis, {
  document: { createTextNode: (text: string) => ({ text }), createElement: () => ({ append: () => undefined }) },
});

test("finished lines are parted from the open one", () => {
  assert.deepEqual(splitLines("one\ntwo\nthr"), ["one\ntwo\n", "thr"]);
  assert.deepEqual(splitLines("open"), ["", "open"]);
  assert.deepEqual(splitLines("done\n"), ["done\n", ""]);
});

test("a colour that is on at the end goes on in what follows", () => {
  const { styles } = paint("\x1b[1;31mred\n");
  assert.deepEqual(styles, [1, 31]);
  assert.deepEqual(paint("still\x1b[0m", styles).styles, []);
});
