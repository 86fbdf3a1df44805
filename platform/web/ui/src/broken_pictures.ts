// A picture that the browser cannot draw is replaced by words: what is left of it is a bar in the colour behind it.

const SMALL_EDGE_PX = 64;

export function startBrokenPictures(): void {
  // `error` does not bubble.
  document.addEventListener("error", ({ target }) => target instanceof HTMLImageElement && replace(target), true);
  // Those that failed before this program ran.
  for (const picture of [...document.images]) {
    if (picture.complete && !picture.naturalWidth) replace(picture);
  }
}

function replace(picture: HTMLImageElement): void {
  const words = document.createElement("span");
  const isSmall = Number(picture.getAttribute("width") ?? Infinity) <= SMALL_EDGE_PX;
  words.className = `no-picture ${picture.className}`;
  words.textContent = isSmall ? "not shown" : "This picture cannot be shown. It may be damaged.";
  if (picture.alt) words.title = picture.alt;
  picture.replaceWith(words);
}
