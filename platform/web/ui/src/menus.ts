// Menus and the folded rail: opened by their own button, closed by Escape, by a click elsewhere or by a choice.
// While the rail is open, Tab walks its button and its links: it covers the page.
// Tabs that are wider than the window begin where the current one is in sight.

function closeMenus(except?: Node | null): void {
  for (const menu of document.querySelectorAll<HTMLDetailsElement>("details.menu[open]")) {
    if (!except || !menu.contains(except)) menu.open = false;
  }
}

function isRailOpen(): boolean {
  return document.body.classList.contains("rail-open");
}

function setRail(isOpen: boolean): void {
  document.body.classList.toggle("rail-open", isOpen);
  document.querySelector("[data-rail-button]")?.setAttribute("aria-expanded", String(isOpen));
}

function walkRail(event: KeyboardEvent): void {
  const stops = [...document.querySelectorAll<HTMLElement>("[data-rail-button], .rail a")];
  const here = stops.indexOf(document.activeElement as HTMLElement);
  stops.at((here + (event.shiftKey ? -1 : 1)) % stops.length)?.focus();
  event.preventDefault();
}

function showCurrentTabs(): void {
  for (const tab of document.querySelectorAll<HTMLElement>(".tabs > [aria-current]")) {
    const row = tab.parentElement as HTMLElement;
    row.scrollLeft = tab.offsetLeft - row.offsetLeft - (row.clientWidth - tab.offsetWidth) / 2;
  }
}

export function startMenus(): void {
  showCurrentTabs();
  document.addEventListener("click", (event) => {
    const target = event.target instanceof Element ? event.target : null;
    closeMenus(target?.closest(".panel a") ? null : target);
    if (target?.closest("[data-rail-button]")) setRail(!isRailOpen());
    else if (!target?.closest(".rail")) setRail(false);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Tab" && isRailOpen()) walkRail(event);
    if (event.key !== "Escape") return;
    document.querySelector<HTMLElement>("details.menu[open] > summary")?.focus();
    if (isRailOpen()) document.querySelector<HTMLElement>("[data-rail-button]")?.focus();
    closeMenus();
    setRail(false);
  });
}
