// Marks every place in an element's text that matches, without touching its structure otherwise.

export function markMatches(element: Element, wanted: string): number {
  for (const mark of element.querySelectorAll("mark")) mark.replaceWith(...mark.childNodes);
  element.normalize();
  if (!wanted) return 0;
  const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  const texts: Text[] = [];
  while (walker.nextNode()) texts.push(walker.currentNode as Text);
  const count = texts.reduce((sum, text) => sum + markIn(text, wanted.toLowerCase()), 0);
  element.querySelector("mark")?.scrollIntoView({ block: "nearest" });
  return count;
}

function markIn(text: Text, wanted: string): number {
  let count = 0;
  let rest = text;
  for (let found = rest.data.toLowerCase().indexOf(wanted); found >= 0; found = rest.data.toLowerCase().indexOf(wanted)) {
    const match = rest.splitText(found);
    rest = match.splitText(wanted.length);
    const mark = document.createElement("mark");
    match.replaceWith(mark);
    mark.append(match);
    count += 1;
  }
  return count;
}
