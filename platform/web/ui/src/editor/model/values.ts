// Values of parameters as people type them: 0.1 is a number, true a truth, everything else a text; quotes make it one.

import { parse, stringify } from "yaml";
import type { Value } from "./flow.ts";

export function valueOf(text: string): Value {
  const trimmed = text.trim();
  if (trimmed === "") return "";
  try {
    const value: unknown = parse(trimmed);
    if (typeof value === "boolean" || (typeof value === "number" && Number.isFinite(value))) return value;
    if (typeof value === "string" && /^["']/.test(trimmed)) return value;
  } catch {
    // Not YAML: a text then.
  }
  return trimmed;
}

// The type of a flow's parameter whose default is typed so: 1.0 is not meant as a whole number.
export function typeOf(text: string): "float" | "int" | "str" | "bool" {
  const value = valueOf(text);
  if (typeof value === "boolean") return "bool";
  if (typeof value === "string") return "str";
  return Number.isInteger(value) && !/[.e]/i.test(text) ? "int" : "float";
}

export function textOf(value: Value | null): string {
  if (value === null) return "";
  if (typeof value !== "string") return String(value);
  return valueOf(value) === value ? value : stringify(value, { lineWidth: 0 }).trim();
}

// Several values, separated by commas outside of quotes.
export function valuesOf(text: string): Value[] {
  const parts: string[] = [];
  const unclosed = new Set<string>();
  let start = 0;
  for (let at = 0; at < text.length; at++) {
    const sign = text.charAt(at);
    if (sign === ",") {
      parts.push(text.slice(start, at));
      start = at + 1;
    } else if ((sign === '"' || sign === "'") && !unclosed.has(sign)) {
      const end = endOfQuote(text, at);
      if (end > 0) at = end;
      else unclosed.add(sign);
    }
  }
  parts.push(text.slice(start));
  return parts
    .map((part) => part.trim())
    .filter(Boolean)
    .map(valueOf);
}

// Where the quote at `at` is closed; -1 where it never is, and then none of its kind behind it is either.
function endOfQuote(text: string, at: number): number {
  const quote = text[at];
  for (let next = at + 1; next < text.length; next++) {
    if (text[next] === quote) return next;
    if (quote === '"' && text[next] === "\\") next++;
  }
  return -1;
}

export function textsOf(values: readonly Value[]): string {
  return values
    .map((value) => (typeof value === "string" && value.includes(",") ? JSON.stringify(value) : textOf(value)))
    .join(", ");
}

// "90" becomes a number of seconds, "30m" stays: both are durations.
export function durationOf(text: string): string | number | undefined {
  const trimmed = text.trim();
  if (!trimmed) return undefined;
  return /^\d+(\.\d+)?$/.test(trimmed) ? Number(trimmed) : trimmed;
}
