// What the axis of a line without any change reaches from and to: a scale of the line's own size. The library's own
// choice for nothing but zeros is a hundred.

export function flatRange(least: number | null, most: number | null): [number, number] | null {
  if (least === null || most === null) return [0, 1];
  if (least !== most) return null;
  return least === 0 ? [0, 1] : [Math.min(0, 2 * least), Math.max(0, 2 * least)];
}
