// An icon of the sprite, which the build puts beside its scripts. Decoration: words beside it say what it means.

// Not `new URL(name, import.meta.url)`: the build would take that for a file of ours.
const HERE = import.meta.url;

export function iconAddress(name: string): string {
  return new URL(`icons.svg#${name}`, HERE).href;
}

export function Icon({ name, css = "" }: { name: string; css?: string }) {
  return (
    <svg className={`icon ${css}`} aria-hidden="true">
      <use href={iconAddress(name)} />
    </svg>
  );
}
