// Writing a document anew changes more than was edited: spaces, quotes, blank lines. This keeps every line of the
// original that the edit did not touch.

type Match = [before: number, after: number];

// `original` is what the person wrote, `plain` the same document written anew, `edited` that document after the edit.
export function keepFormatting(original: string, plain: string, edited: string): string {
  if (original === plain) return edited;
  const [a, n, m] = [original, plain, edited].map((text) => text.split("\n")) as [string[], string[], string[]];
  // Of the original only the words count, so that another indentation still finds its lines.
  const ofOriginal = new Map(matchLines(n.map(words), a.map(words)));
  const ofEdited = new Map(matchLines(n, m));
  const kept: string[] = [];
  let [nextA, nextN, nextM] = [0, 0, 0];
  for (let at = 0; at <= n.length; at++) {
    const [inA, inM] = at === n.length ? [a.length, m.length] : [ofOriginal.get(at), ofEdited.get(at)];
    if (inA === undefined || inM === undefined) continue;
    const [was, plainly, is] = [a.slice(nextA, inA), n.slice(nextN, at), m.slice(nextM, inM)];
    if (sameLines(plainly, is)) kept.push(...was);
    else kept.push(...emptyLines(was).slice(emptyLines(plainly).length), ...is);
    if (at < n.length) kept.push(a[inA] ?? "");
    [nextA, nextN, nextM] = [inA + 1, at + 1, inM + 1];
  }
  return kept.join("\n");
}

// Empty lines before the first other one. The writer knows one of several; the rest of them stay too.
function emptyLines(lines: string[]): string[] {
  const first = lines.findIndex((line) => line.trim() !== "");
  return first < 0 ? [] : lines.slice(0, first);
}

function words(line: string): string {
  return line.replace(/\s+/g, "");
}

function sameLines(some: string[], others: string[]): boolean {
  return some.length === others.length && some.every((line, index) => line === others[index]);
}

// The longest common subsequence (Myers' greedy algorithm), after what both ends share.
export function matchLines(before: string[], after: string[]): Match[] {
  let start = 0;
  while (start < before.length && start < after.length && before[start] === after[start]) start++;
  let end = 0;
  const longest = Math.min(before.length, after.length) - start;
  while (end < longest && before[before.length - 1 - end] === after[after.length - 1 - end]) end++;
  const matches: Match[] = [];
  for (let index = 0; index < start; index++) matches.push([index, index]);
  const middle = matchMiddle(before.slice(start, before.length - end), after.slice(start, after.length - end));
  for (const [one, other] of middle) matches.push([one + start, other + start]);
  for (let index = end; index > 0; index--) matches.push([before.length - index, after.length - index]);
  return matches;
}

function matchMiddle(before: string[], after: string[]): Match[] {
  const most = before.length + after.length;
  const reach = new Map<number, number>([[1, 0]]);
  const trace: Map<number, number>[] = [];
  for (let edits = 0; edits <= most; edits++) {
    trace.push(new Map(reach));
    for (let diagonal = -edits; diagonal <= edits; diagonal += 2) {
      const down = reach.get(diagonal + 1) ?? -1;
      const right = reach.get(diagonal - 1) ?? -1;
      let x = diagonal === -edits || (diagonal !== edits && right < down) ? down : right + 1;
      while (x < before.length && x - diagonal < after.length && before[x] === after[x - diagonal]) x++;
      reach.set(diagonal, x);
      if (x >= before.length && x - diagonal >= after.length) return walkBack(trace, before.length, after.length);
    }
  }
  return [];
}

function walkBack(trace: Map<number, number>[], endX: number, endY: number): Match[] {
  const matches: Match[] = [];
  let [x, y] = [endX, endY];
  for (let edits = trace.length - 1; edits >= 0; edits--) {
    const reach = trace[edits] as Map<number, number>;
    const diagonal = x - y;
    const isDown =
      diagonal === -edits || (diagonal !== edits && (reach.get(diagonal - 1) ?? -1) < (reach.get(diagonal + 1) ?? -1));
    const beforeX = reach.get(isDown ? diagonal + 1 : diagonal - 1) ?? 0;
    const beforeY = beforeX - (isDown ? diagonal + 1 : diagonal - 1);
    while (x > beforeX && y > beforeY && x > 0 && y > 0) matches.push([--x, --y]);
    [x, y] = [beforeX, beforeY];
  }
  return matches.reverse();
}
