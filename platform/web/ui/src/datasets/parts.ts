// How files travel (datasets/engine/part_frames.py): many small ones in a part, a large one in pieces of its own part.

import type { Found } from "./traversal.ts";
import type { Arrived } from "./upload_api.ts";

export type Part = { number: number; files: Found[]; isLarge: boolean; startsAt: number };

/** Files above this are stored in chunks, so they are sent piece by piece. */
export const LARGE_BYTES = 16 * 2 ** 20;
/** One piece of a large file: the server keeps the whole chunks of it. */
export const PIECE_BYTES = 32 * 2 ** 20;
// Small enough that a broken connection costs little and the bar moves, large enough to make full packs.
const SMALL_PART_BYTES = 16 * 2 ** 20;
const MOST_FILES = 1000;

/** Put files into parts numbered from `firstNumber` on. */
export function planParts(files: Iterable<Found>, firstNumber = 0): Part[] {
  const parts: Part[] = [];
  let open: Found[] = [];
  let openBytes = 0;
  const push = (group: Found[], isLarge: boolean) =>
    parts.push({ number: firstNumber + parts.length, files: group, isLarge, startsAt: 0 });
  const close = () => {
    if (open.length) push(open, false);
    open = [];
    openBytes = 0;
  };
  for (const item of files) {
    if (item.file.size > LARGE_BYTES) {
      push([item], true);
      continue;
    }
    if (open.length === MOST_FILES || (open.length && openBytes + item.file.size > SMALL_PART_BYTES)) close();
    open.push(item);
    openBytes += item.file.size;
  }
  close();
  return parts;
}

/** The body of a request: the browser streams the files' bytes from the disk when it is sent. */
export function bodyOf(part: Part, offset: number): Blob {
  const files = part.files.map(({ path, file }) => ({ path, size_bytes: file.size, mtime_ms: file.lastModified }));
  const header = new TextEncoder().encode(JSON.stringify({ files, offset }));
  const length = new DataView(new ArrayBuffer(4));
  length.setUint32(0, header.length);
  const content = part.isLarge
    ? part.files.map(({ file }) => file.slice(offset, offset + PIECE_BYTES))
    : part.files.map(({ file }) => file);
  return new Blob([length.buffer, header, ...content]);
}

export function sizeOf(files: Iterable<Found>): number {
  let bytes = 0;
  for (const { file } of files) bytes += file.size;
  return bytes;
}

/** What is left of an interrupted upload; null when these are not the files that it was of. */
export function planRest(found: Found[], arrived: Arrived): { parts: Part[]; there: Found[] } | null {
  const keyOf = (path: string, size: number, mtime: number) => `${size} ${mtime} ${path}`;
  const chosen = new Map(found.map((item) => [keyOf(item.path, item.file.size, item.file.lastModified), item]));
  const there: Found[] = [];
  for (const { path, size_bytes, mtime_ms } of arrived.items) {
    const item = chosen.get(keyOf(path, size_bytes, mtime_ms));
    if (!item) return null;
    there.push(item);
  }
  const begun: Part[] = [];
  for (const { number, path, size_bytes, mtime_ms } of arrived.unfinished) {
    const item = found.find(
      ({ path: own, file }) => own === path && file.lastModified === mtime_ms && file.size > size_bytes,
    );
    if (!item) return null;
    begun.push({ number, files: [item], isLarge: true, startsAt: size_bytes });
  }
  const done = new Set([...there, ...begun.flatMap(({ files }) => files)]);
  const rest = found.filter((item) => !done.has(item));
  return { parts: [...begun, ...planParts(rest, arrived.next_number)], there };
}
