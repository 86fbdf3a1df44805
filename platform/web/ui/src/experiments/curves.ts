// The arithmetic of curves: smoothing, what they go along, and where their numbers stand beside them.

export type Series = { id: string; steps: number[]; times: number[]; values: (number | null)[]; total: number };
export type Along = "step" | "relative" | "time";
export type Line = { x: number[]; y: (number | null)[] };
type Values = readonly (number | null)[];

const MS = 1000;

/** Exponential moving average, corrected at its start so that it begins at the first value. Gaps stay gaps. */
export function smooth(values: Values, weight: number): (number | null)[] {
  if (weight <= 0) return [...values];
  let sum = 0;
  let share = 0;
  return values.map((value) => {
    if (value === null) return null;
    sum = sum * weight + value * (1 - weight);
    share = share * weight + (1 - weight);
    return sum / share;
  });
}

/** Where the points of a curve stand: its steps, seconds since its first point, or seconds since 1970. */
export function placesOf(series: Series, along: Along): number[] {
  if (along === "step") return series.steps;
  const start = along === "relative" ? Math.min(...series.times) : 0;
  return series.times.map((time) => (time - start) / MS);
}

/** One column of places for all lines, and for each line its values there; of two values at one place the later. */
export function align(lines: readonly Line[]): [number[], ...(number | null | undefined)[][]] {
  const places = [...new Set(lines.flatMap(({ x }) => x))].sort((a, b) => a - b);
  const row = new Map(places.map((place, number) => [place, number]));
  const columns = lines.map(({ x, y }) => {
    // Undefined: this line has no point here and goes on through; null: it has one that is no number, a gap.
    const column = new Array<number | null | undefined>(places.length).fill(undefined);
    x.forEach((place, number) => (column[row.get(place) as number] = y[number] ?? null));
    return column;
  });
  return [places, ...columns];
}

/** The value of a line at a row, or the newest before it. */
export function valueAt(column: readonly (number | null | undefined)[], row: number): number | null {
  for (let at = row; at >= 0; at -= 1) if (column[at] != null) return column[at] as number;
  return null;
}

/** Moves labels apart that would cover each other, by as little as it takes, within top and bottom. */
export function spread(wanted: readonly number[], gap: number, top: number, bottom: number): number[] {
  const order = wanted.map((_, number) => number).sort((a, b) => (wanted[a] as number) - (wanted[b] as number));
  const found = new Array<number>(wanted.length).fill(0);
  let lowest = top;
  for (const number of order) {
    found[number] = Math.max(wanted[number] as number, lowest);
    lowest = found[number] + gap;
  }
  let highest = bottom;
  for (const number of order.reverse()) {
    found[number] = Math.max(top, Math.min(found[number] as number, highest));
    highest = found[number] - gap;
  }
  return found;
}

/** Where values stand between gaps, so that no line shows them; null where there is none. Undefined is no gap. */
export function lonely(values: readonly (number | null | undefined)[]): number[] | null {
  const known = values.flatMap((value, place) => (value === undefined ? [] : [{ value, place }]));
  const isGap = (index: number) => typeof known[index]?.value !== "number";
  const found = known.filter((_, index) => !isGap(index) && isGap(index - 1) && isGap(index + 1));
  return found.length > 0 ? found.map(({ place }) => place) : null;
}
