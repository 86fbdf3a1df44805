import assert from "node:assert/strict";
import { test } from "node:test";
import { align, lonely, placesOf, smooth, spread, valueAt } from "../src/experiments/curves.ts";
import { accept, offerAt } from "../src/experiments/filter_words.ts";
import { apart, bridgesOf, isWithin, pathOf, rangeOf, scaleOf, shortened } from "../src/experiments/parallel.ts";

const axis = (values: (number | string | null)[]) => ({ label: "lr", kind: "params", low_is_good: false, values });

test("smoothing begins at the first value, follows the rest, and leaves gaps alone", () => {
  assert.deepEqual(smooth([1, 3, null, 3], 0), [1, 3, null, 3]);
  const smoothed = smooth([1, null, 3], 0.5);
  assert.equal(smoothed[0], 1);
  assert.equal(smoothed[1], null);
  assert.ok(Math.abs((smoothed[2] as number) - 7 / 3) < 1e-12);
  assert.ok(smooth([2, 2, 2, 2], 0.9).every((value) => Math.abs((value as number) - 2) < 1e-12));
});

test("a curve goes along its steps, the time since its start, or the time of day", () => {
  const series = { id: "a", steps: [5, 6], times: [10_000, 12_500], values: [1, 2], total: 2 };

  assert.deepEqual(placesOf(series, "step"), [5, 6]);
  assert.deepEqual(placesOf(series, "relative"), [0, 2.5]);
  assert.deepEqual(placesOf(series, "time"), [10, 12.5]);
});

test("lines share one column of places; a missing point is no gap, a point without a number is one", () => {
  assert.deepEqual(
    align([
      { x: [3, 1], y: [30, 10] },
      { x: [2, 3], y: [null, 5] },
    ]),
    [
      [1, 2, 3],
      [10, undefined, 30],
      [undefined, null, 5],
    ],
  );
  assert.deepEqual(align([{ x: [1, 1], y: [1, 2] }]), [[1], [2]]);
  assert.equal(valueAt([4, undefined, null], 2), 4);
  assert.equal(valueAt([undefined, 1], 0), null);
});

test("labels that would cover each other move apart and stay inside", () => {
  assert.deepEqual(spread([50, 10], 10, 0, 100), [50, 10]);
  assert.deepEqual(spread([50, 51, 52], 10, 0, 100), [50, 60, 70]);
  assert.deepEqual(spread([99, 98], 10, 0, 100), [100, 90]);
});

test("numbers stand along an axis by value, by powers of ten where they span two or more", () => {
  const linear = scaleOf(axis([0, 5, null, 10]));
  assert.deepEqual([0, 5, null, 10].map(linear.place), [0, 0.5, null, 1]);
  const log = scaleOf(axis([0.001, 0.01, 0.1]));
  assert.ok(Math.abs((log.place(0.01) as number) - 0.5) < 1e-12);
  assert.deepEqual(
    log.ticks.map(({ label }) => label),
    ["0.001", "0.01", "0.1"],
  );
  const many = scaleOf(axis([9990, 9992, 9994, 9996, 9998, 10000]));
  assert.deepEqual(
    many.ticks.map(({ label }) => label),
    ["9990", "9992.5", "9995", "9997.5", "10000"],
  );
});

test("names stand at even distances in their order, a single value in the middle", () => {
  assert.deepEqual(["sgd", "adam", null].map(scaleOf(axis(["sgd", "adam", "rms"])).place), [1, 0, null]);
  assert.equal(scaleOf(axis([3, "auto"])).place("auto"), 1);
  assert.equal(scaleOf(axis([3, 3])).place(3), 0.5);
});

test("of ticks whose labels would cover each other the outer ones stay", () => {
  const ticks = [0.5, 0, 0.02, 0.98, 1, 0.53].map((at) => ({ at, label: String(at) }));

  assert.deepEqual(
    apart(ticks, 0.05).map(({ label }) => label),
    ["0", "0.5", "1"],
  );
  assert.deepEqual(apart([], 0.05), []);
});

test("a text that is too long loses its middle, so that both its ends tell it from others", () => {
  assert.equal(shortened("learning_rate", 13), "learning_rate");
  assert.equal(shortened("learning_rate_a", 8), "lear…e_a");
  assert.equal(shortened("learning_rate_b", 8), "lear…e_b");
  assert.equal(shortened("learning_rate", 2), "l…");
});

test("numbers beside a name stand in their order, without the noise of their last digits", () => {
  const scale = scaleOf(axis([0.1 * 3, "auto", 0.6, 1.9000000000000001, 10]));

  assert.deepEqual(
    scale.ticks.map(({ label }) => label),
    ["0.3", "0.6", "1.9", "10", "auto"],
  );
  assert.equal(scale.place(0.1 * 3), 0);
});

test("a range keeps the lines that go through it; what was not recorded is in none", () => {
  const ranges = new Map([[1, { low: 0.4, high: 0.6 }]]);

  assert.equal(isWithin([0, 0.5], ranges), true);
  assert.equal(isWithin([0, 0.7], ranges), false);
  assert.equal(isWithin([0, null], ranges), false);
  assert.equal(isWithin([null, 0.7], new Map()), true);
});

test("a range is read from two places in any order, and a mere click is none", () => {
  assert.deepEqual(rangeOf(0.8, -1), { low: 0, high: 0.8 });
  assert.equal(rangeOf(0.5, 0.505), null);
});

test("a path breaks where something was not recorded, and a bridge leads over it", () => {
  const [places, xs] = [
    [0, 1, null, 0.5, 0],
    [0, 100, 200, 300, 400],
  ];

  assert.equal(pathOf(places, xs, 10, 100), "M0,110L100,10M300,60L400,110");
  assert.equal(bridgesOf(places, xs, 10, 100), "M100,10L300,60");
  assert.equal(bridgesOf([null, 1, 0], xs, 10, 100), "");
});

const words = {
  columns: ["flow", "created", "params.lr", "metrics.accuracy", 'params."a b"'],
  natures: { flow: "text", created: "moment" },
  values: { flow: ["digits", "x rays"] },
};
const offers = (text: string) => offerAt(text, text.length, words).options;

test("a filter is completed by what may come next", () => {
  assert.deepEqual(offers("met"), ["metrics.accuracy"]);
  assert.deepEqual(offers("acc"), ["metrics.accuracy"]);
  assert.deepEqual(offers("flow "), ["=", "!=", "in (", "not in (", "contains"]);
  assert.deepEqual(offers("created "), ["<", "<=", ">", ">="]);
  assert.deepEqual(offers("flow = "), ["digits", '"x rays"']);
  assert.deepEqual(offers("flow = d"), ["digits"]);
  assert.deepEqual(offers("flow in (digits, "), ["digits", '"x rays"']);
  assert.deepEqual(offers("flow = digits "), ["and", "or"]);
  assert.deepEqual(offers("flow in (digits) "), ["and", "or"]);
  assert.deepEqual(offers("not (flow = digits) and par"), ["params.lr", 'params."a b"']);
  assert.deepEqual(offers('params."a b" > 3 '), ["and", "or"]);
  assert.ok(offers("metrics.accuracy ").includes("and"));
  assert.ok(!offers("metrics.accuracy ").includes("contains"));
  assert.deepEqual(offers("params.lr"), []);
});

test("accepting replaces the piece that was begun and goes on behind it", () => {
  const text = "met and flow = digits";

  assert.deepEqual(accept(text, offerAt(text, 3, words), "metrics.accuracy"), {
    text: "metrics.accuracy and flow = digits",
    at: 17,
  });
  assert.deepEqual(accept("flow i", offerAt("flow i", 6, words), "in ("), { text: "flow in (", at: 9 });
});

test("a value between gaps is drawn as a point", () => {
  assert.deepEqual(lonely([null, 1, null, undefined, 2, undefined, 3, null, 4]), [1, 8]);
  assert.equal(lonely([1, undefined, 2]), null);
  assert.equal(lonely([null, undefined]), null);
});
