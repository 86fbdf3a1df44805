// Quantities as the server writes them (core/units.py): the only place of the scripts that turns them into text.

const UNITS = ["kB", "MB", "GB", "TB", "PB"];
const PARTS: [number, string, number, string][] = [
  [86400, "d", 3600, "h"],
  [3600, "h", 60, "min"],
  [60, "min", 1, "s"],
];

/** Three significant digits in powers of 1000: `799 MB`, `4.2 GB`, `12 B`. */
export function formatBytes(bytes: number): string {
  let value = bytes;
  let unit = "B";
  for (const larger of UNITS) {
    if (Math.abs(value) < 999.5) break;
    value /= 1000;
    unit = larger;
  }
  if (unit === "B") return `${Math.trunc(value)} B`;
  return `${value.toFixed(value >= 99.95 ? 0 : 1)} ${unit}`;
}

/** The two largest units: `0.4 s`, `12 s`, `3 min 20 s`, `2 h 5 min`. */
export function formatDuration(seconds: number): string {
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  for (const [size, unit, smaller, smallerUnit] of PARTS) {
    if (whole < size) continue;
    const small = Math.trunc((whole % size) / smaller);
    const large = `${Math.trunc(whole / size)} ${unit}`;
    return small ? `${large} ${small} ${smallerUnit}` : large;
  }
  return `${whole} s`;
}

/** A whole number with separators for thousands. */
export function formatCount(value: number): string {
  return value.toLocaleString("en-US");
}

/** A count with its noun: `1 file`, `1,797 files`. */
export function formatCounted(value: number, noun: string): string {
  return `${formatCount(value)} ${noun}${value === 1 ? "" : "s"}`;
}

/** How far a moment lies in the past: `just now`, `12 s ago`, `5 min ago`. */
export function formatAgo(moment: Date, now: Date = new Date()): string {
  const seconds = (now.getTime() - moment.getTime()) / 1000;
  if (seconds < 5) return "just now";
  const [size, unit] = PARTS.find(([least]) => seconds >= least) ?? [1, "s"];
  return `${Math.trunc(seconds / size)} ${unit} ago`;
}

/** A moment in full: `2026-11-21 08:40:00 UTC`. */
export function formatMoment(moment: Date): string {
  return `${moment.toISOString().slice(0, 19).replace("T", " ")} UTC`;
}

/** A measured value with at most five significant digits. */
export function formatNumber(value: number): string {
  return String(Number(value.toPrecision(5)));
}
