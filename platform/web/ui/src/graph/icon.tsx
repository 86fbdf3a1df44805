// An icon of the sprite, which the build puts beside its scripts. Decoration: words beside it say what it means.

import sprite from "virtual:icons";

function iconAddress(name: string): string {
  return `${sprite}#${name}`;
}

export function Icon({ name, css = "" }: { name: string; css?: string }) {
  return (
    <svg className={`icon ${css}`} aria-hidden="true">
      <use href={iconAddress(name)} />
    </svg>
  );
}
