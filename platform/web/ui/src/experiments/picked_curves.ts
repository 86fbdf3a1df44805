// <picked-curves>: draws the curves of the rows that are ticked in the table, and counts them on the Compare button.

const MOST = 20;
const MOST_CHARTS = 2;

export class PickedCurves extends HTMLElement {
  #show = (event: Event) => {
    if (event.target instanceof HTMLInputElement && event.target.form?.id === this.dataset["form"]) this.#draw();
  };

  connectedCallback(): void {
    document.addEventListener("change", this.#show);
    this.#draw(); // The browser may have kept ticks over a reload.
  }

  disconnectedCallback(): void {
    document.removeEventListener("change", this.#show);
  }

  #draw(): void {
    const picked = [...document.querySelectorAll<HTMLInputElement>(`#${this.dataset["form"]} input[name=ids]:checked`)];
    const count = document.querySelector("[data-compares] [data-count]");
    if (count) count.textContent = picked.length ? ` ${picked.length}` : "";
    const button = document.querySelector<HTMLButtonElement>("[data-compares]");
    if (button) {
      button.disabled = picked.length > MOST;
      button.title = picked.length > MOST ? `At most ${MOST} can be compared at once.` : "";
    }
    const shown = picked.slice(0, MOST);
    this.replaceChildren(...(shown.length ? [this.#board(shown)] : []));
  }

  #board(picked: HTMLInputElement[]): HTMLElement {
    const ids = picked.map(({ value }) => value).join(",");
    const board = document.createElement("curve-board");
    board.dataset["points"] = `${this.dataset["points"]}?ids=${ids}`;
    const legend = document.createElement("ul");
    legend.className = "curve-legend";
    legend.ariaLabel = "Curves";
    legend.append(...picked.map(member));
    board.append(legend);
    const charts = document.createElement("div");
    charts.className = "two even";
    const measured = new Set(picked.flatMap(metricsOf));
    const keys = (this.dataset["keys"] ?? "").split("\n").filter((key) => measured.has(key));
    for (const key of keys.slice(0, MOST_CHARTS)) charts.append(this.#chart(key, ids));
    board.append(charts);
    return board;
  }

  #chart(key: string, ids: string): HTMLElement {
    const box = document.createElement("section");
    box.className = "box";
    box.dataset["key"] = key;
    box.innerHTML =
      '<h2><span class="break"></span><span class="aside"><span data-axis>by step</span> · <a>Numbers</a></span></h2><div class="chart" role="group"></div>';
    const [title, link, stage] = [box.querySelector(".break"), box.querySelector("a"), box.querySelector(".chart")];
    if (title) title.textContent = key;
    if (link) link.href = `${this.dataset["numbers"]}?${new URLSearchParams({ ids, key })}`;
    stage?.setAttribute("aria-label", `${key}: arrow keys read the values`);
    return box;
  }
}

/** The metrics that the row of an experiment shows a value of. */
function metricsOf(input: HTMLInputElement): string[] {
  const cells = input.closest("tr")?.querySelectorAll<HTMLElement>("[data-metric]") ?? [];
  return [...cells].map(({ dataset }) => dataset["metric"] ?? "");
}

function member({ value, dataset }: HTMLInputElement, place: number): HTMLElement {
  const item = document.createElement("li");
  item.innerHTML =
    '<button type="button" aria-pressed="true"><svg class="swatch" viewBox="0 0 10 10" aria-hidden="true"><rect width="10" height="10"></rect></svg><b></b> <span></span><output></output></button>';
  const [button, number, title] = [item.querySelector("button"), item.querySelector("b"), item.querySelector("span")];
  Object.assign(button?.dataset ?? {}, { series: value, hue: dataset["hue"] });
  item.querySelector("svg")?.classList.add(`hue-${dataset["hue"]}`);
  if (number) number.textContent = String(place + 1);
  if (title) title.textContent = dataset["title"] ?? "";
  return item;
}
