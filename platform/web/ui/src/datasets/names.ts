// Which names a dataset carries: the rules of nearline.content.paths, told before a byte is sent.

const MAX_PATH_BYTES = 4096;
const MAX_NAME_BYTES = 255;
const LITTER = new Set([".DS_Store", "Thumbs.db", "desktop.ini"]);
const encoder = new TextEncoder();

/** Why a path cannot be carried; null when it can. */
export function whyNot(path: string): string | null {
  if (path.includes("\0")) return "its name contains a NUL character";
  if (encoder.encode(path).length > MAX_PATH_BYTES) return `its path is longer than ${MAX_PATH_BYTES} bytes`;
  for (const name of path.split("/")) {
    if (name === "" || name === "." || name === "..") return "its path has an empty or dotted part";
    if (encoder.encode(name).length > MAX_NAME_BYTES) return `its name is longer than ${MAX_NAME_BYTES} bytes`;
    if (name.toLowerCase() === ".nearline") return "'.nearline' folders belong to workspaces";
  }
  return null;
}

/** What file managers leave behind everywhere, and nobody means to keep. */
export function isLitter(path: string): boolean {
  return LITTER.has(path.slice(path.lastIndexOf("/") + 1));
}

/** A folder as a person writes it, without slashes at its ends. */
export function cleanFolder(text: string): string {
  return text
    .split("/")
    .filter((name) => name.trim() !== "")
    .join("/");
}
