// Remembers, in this browser, the upload that is under way for a dataset, so that it can go on after a reload.

import type { Upload } from "./upload_api.ts";

type Unfinished = Upload & { files: number; bytes: number; at: number };

const LIFETIME_MS = 24 * 3600 * 1000;

export function remember(dataset: string, upload: Upload, files: number, bytes: number): void {
  localStorage.setItem(keyOf(dataset), JSON.stringify({ ...upload, files, bytes, at: Date.now() }));
}

export function recall(dataset: string, branch: string): Unfinished | null {
  const kept = JSON.parse(localStorage.getItem(keyOf(dataset)) ?? "null") as Unfinished | null;
  return kept && kept.branch === branch && Date.now() - kept.at < LIFETIME_MS ? kept : null;
}

export function forget(dataset: string): void {
  localStorage.removeItem(keyOf(dataset));
}

function keyOf(dataset: string): string {
  return `upload ${dataset}`;
}
