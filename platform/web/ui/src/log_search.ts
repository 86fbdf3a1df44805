// Marks every place in an element's text that matches, without touching its structure otherwise.

export function markMatches(element: Element, wanted: string): void {
  for (const mark of element.querySelectorAll("mark")) mark.replaceWith(...mark.childNodes);
  element.normalize();
  if (!wanted) return;
  const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  const texts: Text[] = [];
  while (walker.nextNode()) texts.push(walker.currentNode as Text);
  for (const text of texts) markIn(text, wanted.toLowerCase());
}

function markIn(text: Text, wanted: string): void {
  let rest = text;
  for (
    let found = rest.data.toLowerCase().indexOf(wanted);
    found >= 0;
    found = rest.data.toLowerCase().indexOf(wanted)
  ) {
    const match = rest.splitText(found);
    rest = match.splitText(wanted.length);
    const mark = document.createElement("mark");
    match.replaceWith(mark);
    mark.append(match);
  }
}
