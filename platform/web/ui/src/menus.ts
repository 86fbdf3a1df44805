// Menus and the folded rail: opened by their own button, closed by Escape, by a click elsewhere or by a choice.
// Tabs that are wider than the window begin where the current one is in sight.

function closeMenus(except?: Node | null): void {
  for (const menu of document.querySelectorAll<HTMLDetailsElement>("details.menu[open]")) {
    if (!except || !menu.contains(except)) menu.open = false;
  }
}

function setRail(isOpen: boolean): void {
  document.body.classList.toggle("rail-open", isOpen);
  document.querySelector("[data-rail-button]")?.setAttribute("aria-expanded", String(isOpen));
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
    if (target?.closest("[data-rail-button]")) setRail(!document.body.classList.contains("rail-open"));
    else if (!target?.closest(".rail")) setRail(false);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    document.querySelector<HTMLElement>("details.menu[open] > summary")?.focus();
    closeMenus();
    setRail(false);
  });
}
