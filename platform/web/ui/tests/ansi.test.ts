import assert from "node:assert/strict";
import { test } from "node:test";
import { paint } from "../src/ansi.ts";

class FakeText {
  text: string;
  constructor(text: string) {
    this.text = text;
  }
}

class FakeSpan {
  className = "";
  text = "";
  append(node: FakeText): void {
    this.text += node.text;
  }
}

Object.assign(globalThis, {
  document: { createTextNode: (text: string) => new FakeText(text), createElement: () => new FakeSpan() },
});

function painted(text: string): [string, string][] {
  return (paint(text).nodes as unknown as (FakeText | FakeSpan)[]).map((node) => [
    node instanceof FakeSpan ? node.className : "",
    node.text,
  ]);
}

test("colours become classes and end with a reset", () => {
  assert.deepEqual(painted("a \x1b[1;31mred\x1b[0m b"), [
    ["", "a "],
    ["ansi-1 ansi-31", "red"],
    ["", " b"],
  ]);
});

test("a colour takes the place of the one before, and 39 ends it", () => {
  assert.deepEqual(painted("\x1b[31mr\x1b[32mg\x1b[39mn"), [
    ["ansi-31", "r"],
    ["ansi-32", "g"],
    ["", "n"],
  ]);
});

test("other escape sequences are dropped", () => {
  assert.deepEqual(painted("\x1b[2K\x1b]0;title\x07kept"), [["", "kept"]]);
});

test("a carriage return rewrites its line", () => {
  assert.deepEqual(painted("10 %\r90 %\r100 %\ndone"), [["", "100 %\ndone"]]);
});

test("a carriage return rewrites its line, and one at the end has rewritten nothing yet", () => {
  assert.deepEqual(painted("10 %\r90 %\r\nnext\rlast\r"), [["", "90 %\nlast\r"]]);
});

test("a line of a megabyte is painted at once, whatever is in it", () => {
  const texts = ["a".repeat(1_000_000), "\x1b]".repeat(500_000), "\r".repeat(1_000_000), "\x1b[".repeat(500_000)];
  for (const text of texts) assert.ok(painted(text).length <= 1);
});

test("a style that is on is not put on once more", () => {
  const { styles } = paint("\x1b[1m".repeat(100_000) + "\x1b[4m");
  assert.deepEqual(styles, [1, 4]);
});
