// Collects the icons that pages name into one file, so that a page carries references and the browser one cached sprite.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { Plugin } from "vite";

const require = createRequire(import.meta.url);

/** The address of the sprite, for scripts: `import sprite from "virtual:icons"`. */
const ADDRESS = "virtual:icons";

export function iconSprite(names: readonly string[]): Plugin {
  return {
    name: "icon-sprite",
    resolveId: (id) => (id === ADDRESS ? ADDRESS : undefined),
    load(id) {
      if (id !== ADDRESS) return;
      const file = this.emitFile({
        type: "asset",
        name: "icons.svg",
        originalFileName: "icons.svg",
        source: sprite(names),
      });
      return `export default import.meta.ROLLUP_FILE_URL_${file};`;
    },
  };
}

function sprite(names: readonly string[]): string {
  return `<svg xmlns="http://www.w3.org/2000/svg">${names.map(symbol).join("")}</svg>`;
}

function symbol(name: string): string {
  const svg = readFileSync(require.resolve(`@tabler/icons/outline/${name}.svg`), "utf8");
  const shapes = svg
    .replace(/^[^]*?<svg[^>]*>/, "")
    .replace("</svg>", "")
    .replace(/<path stroke="none"[^>]*\/>/, "")
    .replace(/\s+/g, " ")
    .trim();
  return `<symbol id="${name}" viewBox="0 0 24 24">${shapes}</symbol>`;
}
