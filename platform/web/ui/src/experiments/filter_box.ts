// <filter-box>: a text field that offers what may come next in a filter (a combobox with a list, by mouse or by keys).
// Enter sends the form unless an offer is chosen; Escape closes the list.

import { accept, offerAt, type Offer, type Words } from "./filter_words.ts";

export class FilterBox extends HTMLElement {
  #words: Words = { columns: [], natures: {}, values: {} };
  #offer: Offer = { from: 0, to: 0, options: [] };
  #chosen = -1;
  #list = document.createElement("ul");

  connectedCallback(): void {
    const field = this.#field;
    const source = document.getElementById(this.dataset["words"] ?? "");
    if (!field || !source) return;
    this.#words = JSON.parse(source.textContent ?? "null") as Words;
    Object.assign(this.#list, { id: "filter-offers", role: "listbox", hidden: true, ariaLabel: "Suggestions" });
    this.append(this.#list);
    for (const [name, value] of Object.entries({
      role: "combobox",
      "aria-autocomplete": "list",
      "aria-controls": this.#list.id,
      "aria-expanded": "false",
    }))
      field.setAttribute(name, value);
    field.addEventListener("input", () => this.#open());
    field.addEventListener("click", () => this.#open());
    field.addEventListener("keydown", (event) => this.#press(event));
    field.addEventListener("blur", () => this.#close());
    this.#list.addEventListener("pointerdown", (event) => {
      event.preventDefault(); // Keeps the focus in the field.
      const option = event.target instanceof Element ? event.target.closest("li") : null;
      if (option) this.#accept([...this.#list.children].indexOf(option));
    });
  }

  get #field(): HTMLInputElement | null {
    return this.querySelector("input");
  }

  #open(): void {
    const field = this.#field;
    if (!field) return;
    this.#offer = offerAt(field.value, field.selectionStart ?? field.value.length, this.#words);
    this.#list.replaceChildren(
      ...this.#offer.options.map((option, number) => {
        const item = document.createElement("li");
        Object.assign(item, {
          id: `filter-offer-${number}`,
          role: "option",
          textContent: option,
          ariaSelected: "false",
        });
        return item;
      }),
    );
    this.#show(this.#offer.options.length > 0);
    this.#choose(-1);
  }

  #close(): void {
    this.#show(false);
    this.#choose(-1);
  }

  #show(isOpen: boolean): void {
    this.#list.hidden = !isOpen;
    this.#field?.setAttribute("aria-expanded", String(isOpen));
  }

  #choose(number: number): void {
    this.#list.children[this.#chosen]?.setAttribute("aria-selected", "false");
    this.#chosen = number;
    const option = this.#list.children[number];
    option?.setAttribute("aria-selected", "true");
    option?.scrollIntoView({ block: "nearest" });
    if (option) this.#field?.setAttribute("aria-activedescendant", option.id);
    else this.#field?.removeAttribute("aria-activedescendant");
  }

  #accept(number: number): void {
    const field = this.#field;
    const option = this.#offer.options[number];
    if (!field || option === undefined) return;
    const { text, at } = accept(field.value, this.#offer, option);
    field.value = text;
    field.setSelectionRange(at, at);
    this.#open();
  }

  #press(event: KeyboardEvent): void {
    const count = this.#offer.options.length;
    const isOpen = !this.#list.hidden;
    if ((event.key === "ArrowDown" || event.key === "ArrowUp") && !isOpen) this.#open();
    else if (event.key === "ArrowDown" && isOpen) this.#choose((this.#chosen + 1) % count);
    else if (event.key === "ArrowUp" && isOpen)
      this.#choose((this.#chosen + count - 1 + (this.#chosen < 0 ? 1 : 0)) % count);
    else if (event.key === "Escape" && isOpen) this.#close();
    else if ((event.key === "Enter" || event.key === "Tab") && isOpen && this.#chosen >= 0) this.#accept(this.#chosen);
    else return;
    event.preventDefault();
  }
}
