// From what was dropped or chosen to a list of files with their paths: folders are walked to their end.

import { isLitter, whyNot } from "./names.ts";

export type Found = { path: string; file: File };
type LeftOut = { path: string; why: string };
const AT_ONCE = 256;

export type Listing = { found: Found[]; leftOut: LeftOut[]; litter: number };

/** Entries have to be asked for at once: a drop's items are emptied when its event has ended. */
export function takeEntries(items: Iterable<DataTransferItem>): FileSystemEntry[] {
  return [...items].map((item) => item.webkitGetAsEntry()).filter((entry) => entry !== null);
}

/** All files in and below the entries. `onCount` hears now and then how many there are so far. */
export async function walk(entries: Iterable<FileSystemEntry>, onCount?: (files: number) => void): Promise<Listing> {
  const listing: Listing = { found: [], leftOut: [], litter: 0 };
  const waiting = [...entries].map((entry) => ({ entry, path: entry.name }));
  // Each question goes to another process of the browser, so many are asked at once.
  for (let some = waiting.splice(-AT_ONCE); some.length; some = waiting.splice(-AT_ONCE)) {
    await Promise.all(some.map(({ entry, path }) => look(entry, path, listing, waiting)));
    onCount?.(listing.found.length);
  }
  return sorted(listing);
}

type Waiting = { entry: FileSystemEntry; path: string };

async function look(entry: FileSystemEntry, path: string, listing: Listing, waiting: Waiting[]): Promise<void> {
  try {
    if (entry.isDirectory) {
      const children = await readFolder(entry as FileSystemDirectoryEntry);
      for (const child of children) waiting.push({ entry: child, path: `${path}/${child.name}` });
    } else if (isLitter(path)) {
      listing.litter += 1;
    } else {
      add(listing, path, await readFile(entry as FileSystemFileEntry));
    }
  } catch (error) {
    listing.leftOut.push({ path, why: error instanceof Error ? error.message : "it cannot be read" });
  }
}

/** The files of a chooser; those of a folder come with their path in it. */
export function listChosen(files: Iterable<File>): Listing {
  const listing: Listing = { found: [], leftOut: [], litter: 0 };
  for (const file of files) {
    const path = file.webkitRelativePath || file.name;
    if (isLitter(path)) listing.litter += 1;
    else add(listing, path, file);
  }
  return sorted(listing);
}

/** The one folder that all of the files lie in; null when there is none. */
export function topFolder(found: readonly Found[]): string | null {
  const first = found[0]?.path ?? "";
  const top = first.slice(0, first.indexOf("/") + 1);
  return top && found.every(({ path }) => path.startsWith(top)) ? top.slice(0, -1) : null;
}

function add(listing: Listing, path: string, file: File): void {
  const why = whyNot(path);
  if (why) listing.leftOut.push({ path, why });
  else listing.found.push({ path, file });
}

function sorted(listing: Listing): Listing {
  listing.found.sort((a, b) => (a.path < b.path ? -1 : a.path > b.path ? 1 : 0));
  return listing;
}

async function readFolder(folder: FileSystemDirectoryEntry): Promise<FileSystemEntry[]> {
  const reader = folder.createReader();
  const all: FileSystemEntry[] = [];
  // A reader answers with some entries at a time, and with none at the end.
  for (;;) {
    const some = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject));
    if (some.length === 0) return all;
    for (const entry of some) all.push(entry);
  }
}

function readFile(entry: FileSystemFileEntry): Promise<File> {
  return new Promise((resolve, reject) => entry.file(resolve, reject));
}
