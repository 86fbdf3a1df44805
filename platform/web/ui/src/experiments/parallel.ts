// The geometry of parallel coordinates: an axis a parameter or metric, a line an experiment. Places go from 0 to 1.

export type Value = number | string | null;
export type Axis = { label: string; kind: string; low_is_good: boolean; values: Value[] };
export type Tick = { at: number; label: string };
export type Scale = { place: (value: Value) => number | null; ticks: Tick[]; step: number };
export type Range = { low: number; high: number };

const LOG_RATIO = 100;
const TICKS = 5;
const ROUGHLY = 1e-9;

/** Numbers go along a line (by powers of ten where they span two or more), anything else by name at even distances. */
export function scaleOf(axis: Axis): Scale {
  const known = axis.values.filter((value) => value !== null);
  const numbers = known.filter((value) => typeof value === "number");
  if (numbers.length < known.length || numbers.length === 0) return named([...new Set(known)]);
  const [low, high] = [Math.min(...numbers), Math.max(...numbers)];
  if (low === high)
    return { place: (value) => (value === null ? null : 0.5), ticks: [{ at: 0.5, label: brief(low, 0) }], step: 0.5 };
  const distinct = [...new Set(numbers)];
  return low > 0 && high / low >= LOG_RATIO
    ? numeric(distinct, Math.log10, (at) => 10 ** at)
    : numeric(distinct, same, same);
}

/** Whether a line goes through the chosen range of every axis that has one. What was not recorded is in no range. */
export function isWithin(places: readonly (number | null)[], ranges: ReadonlyMap<number, Range>): boolean {
  return [...ranges].every(([axis, { low, high }]) => {
    const place = places[axis];
    return place != null && place >= low - ROUGHLY && place <= high + ROUGHLY;
  });
}

/** The path of a line between neighbouring axes; where something was not recorded it is broken. */
export function pathOf(places: readonly (number | null)[], xs: readonly number[], top: number, height: number): string {
  return joined(places, xs, top, height, (gap) => gap === 1);
}

/** The path that bridges what was not recorded, to be drawn apart. */
export function bridgesOf(
  places: readonly (number | null)[],
  xs: readonly number[],
  top: number,
  height: number,
): string {
  return joined(places, xs, top, height, (gap) => gap > 1);
}

function joined(
  places: readonly (number | null)[],
  xs: readonly number[],
  top: number,
  height: number,
  isDrawn: (gap: number) => boolean,
): string {
  const known = places.flatMap((place, axis) =>
    place === null ? [] : [{ axis, at: `${round(xs[axis] as number)},${round(top + (1 - place) * height)}` }],
  );
  return known
    .slice(1)
    .map(({ axis, at }, before) => {
      const from = known[before] as { axis: number; at: string };
      return isDrawn(axis - from.axis) ? `M${from.at}L${at}` : "";
    })
    .join("");
}

/** The ticks that stand at least so far from each other; of those that stand closer, the outer ones stay. */
export function apart(ticks: readonly Tick[], least: number): Tick[] {
  const sorted = [...ticks].sort((a, b) => a.at - b.at);
  const last = sorted.at(-1);
  const kept: Tick[] = [];
  for (const tick of sorted) {
    const isFree = tick.at - (kept.at(-1)?.at ?? -Infinity) >= least;
    if (isFree && (tick === last || (last as Tick).at - tick.at >= least || kept.length === 0)) kept.push(tick);
  }
  return kept;
}

/** A text of so many letters at most, without its middle: names of one experiment often begin, or end, alike. */
export function shortened(text: string, most: number): string {
  if (text.length <= most) return text;
  const end = Math.floor((most - 1) / 2);
  return `${text.slice(0, Math.max(0, most - 1 - end))}…${end > 0 ? text.slice(-end) : ""}`;
}

/** A range from two places in any order, within the axis; null when it is too small to be meant. */
export function rangeOf(from: number, to: number, least = 0.01): Range | null {
  const [low, high] = [from, to].map((place) => Math.min(1, Math.max(0, place))).sort((a, b) => a - b) as [
    number,
    number,
  ];
  return high - low < least ? null : { low, high };
}

/** Numbers by their size, then names, such as `auto` in place of a number. */
function named(values: (number | string)[]): Scale {
  const numbers = values.filter((value) => typeof value === "number").sort((a, b) => a - b);
  const names = values.filter((value) => typeof value === "string");
  const sorted = [...numbers, ...names.sort((a, b) => a.localeCompare(b, "en", { numeric: true }))];
  const at = new Map(sorted.map((value, number) => [value, sorted.length === 1 ? 0.5 : number / (sorted.length - 1)]));
  return {
    place: (value) => (value === null ? null : (at.get(value) ?? null)),
    ticks: [...at].map(([value, place]) => ({ at: place, label: typeof value === "number" ? shortest(value) : value })),
    step: 1 / Math.max(1, sorted.length - 1),
  };
}

/** Ticks stand at the values themselves where they are few, else at even distances. */
function numeric(values: number[], there: (value: number) => number, back: (at: number) => number): Scale {
  const [start, end] = [there(Math.min(...values)), there(Math.max(...values))];
  const place = (value: number) => (there(value) - start) / (end - start);
  const even = Array.from({ length: TICKS }, (_, number) => back(start + (number / (TICKS - 1)) * (end - start)));
  const marks = (values.length <= TICKS ? [...values].sort((a, b) => a - b) : even).map((value) => ({
    at: place(value),
    label: brief(value, Math.abs(back(end) - back(start))),
  }));
  return { place: (value) => (typeof value === "number" ? place(value) : null), ticks: marks, step: 0.05 };
}

/** A number without the noise of its last binary digits: 1.9000000000000001 is 1.9. */
function shortest(value: number): string {
  return String(Number(value.toPrecision(12)));
}

function same(value: number): number {
  return value;
}

/** Three digits, or as many as it takes to tell values apart that lie close together. */
function brief(value: number, span: number): string {
  const digits = value === 0 || span === 0 ? 3 : Math.ceil(Math.log10(Math.abs(value) / span)) + 3;
  return String(Number(value.toPrecision(Math.min(12, Math.max(3, digits)))));
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}
