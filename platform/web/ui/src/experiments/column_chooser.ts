// <column-chooser>: puts columns in order without a reload, and finds one among many. Without it the buttons still work.

export class ColumnChooser extends HTMLElement {
  connectedCallback(): void {
    const finder = this.querySelector<HTMLInputElement>("[data-finds]");
    if (finder) finder.hidden = false;
    finder?.addEventListener("input", () => this.#find(finder.value.toLowerCase()));
    finder?.addEventListener("keydown", (event) => event.key === "Enter" && event.preventDefault());
    this.addEventListener("click", (event) => this.#move(event));
  }

  #find(wanted: string): void {
    for (const item of this.querySelectorAll("li")) item.hidden = !item.textContent.toLowerCase().includes(wanted);
  }

  #move(event: Event): void {
    const button =
      event.target instanceof Element
        ? event.target.closest<HTMLButtonElement>("button[name=up], button[name=down]")
        : null;
    const item = button?.closest("li");
    if (!button || !item) return;
    event.preventDefault();
    if (button.name === "up") item.previousElementSibling?.before(item);
    else item.nextElementSibling?.after(item);
    button.focus();
  }
}
