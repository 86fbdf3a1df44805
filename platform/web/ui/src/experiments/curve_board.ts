// <curve-board>: the charts of some experiments with what they share: legend, smoothing, horizontal axis, scale. The
// choices stand in the address. A chart asks for its points when it comes into sight.

import { CurvePlot, type Look, type Member } from "./curve_plot.ts";
import type { Along, Series } from "./curves.ts";

const NEAR = "400px";
const NAMES = { smoothing: "smooth", x: "x", log: "log" } as const;

export class CurveBoard extends HTMLElement {
  #plots = new Map<Element, CurvePlot>();
  #hidden = new Set<string>();
  #watcher: IntersectionObserver | undefined;
  #redraw = () => this.#draw();

  connectedCallback(): void {
    this.#readAddress();
    for (const tools of this.querySelectorAll<HTMLElement>(".curve-tools")) tools.hidden = false;
    this.addEventListener("input", this);
    this.addEventListener("click", this);
    for (const name of ["pointerover", "pointerout", "focusin", "focusout"]) this.addEventListener(name, this);
    document.addEventListener("theme-changed", this.#redraw);
    this.#watcher = new IntersectionObserver(
      (entries) => entries.forEach((entry) => entry.isIntersecting && this.#load(entry.target)),
      { rootMargin: NEAR },
    );
    for (const box of this.querySelectorAll("[data-key]")) this.#watcher.observe(box);
  }

  disconnectedCallback(): void {
    this.#watcher?.disconnect();
    document.removeEventListener("theme-changed", this.#redraw);
    for (const plot of this.#plots.values()) plot.remove();
    this.#plots.clear();
  }

  handleEvent(event: Event): void {
    const target = event.target instanceof Element ? event.target : null;
    const button = target?.closest<HTMLElement>("button[data-series]");
    if (event.type === "input" && target?.matches("[data-sets]")) this.#change();
    else if (event.type === "click" && button) this.#toggle(button);
    else if (button && /over|in$/.test(event.type)) this.#focus(button.dataset["series"] ?? null);
    else if (button) this.#focus(null);
    else if (event.type === "click" && target?.matches("[data-again]"))
      void this.#load(target.closest("[data-key]") as Element);
  }

  get #members(): Member[] {
    return [...this.querySelectorAll<HTMLElement>("[data-series]")].map(({ dataset }, place) => ({
      id: dataset["series"] ?? "",
      number: place + 1,
      hue: Number(dataset["hue"]),
    }));
  }

  get #look(): Look {
    return {
      smoothing: Number(this.#field("smoothing")?.value ?? 0),
      along: (this.#field("x")?.value ?? "step") as Along,
      isLog: (this.#field("log") as HTMLInputElement | null)?.checked ?? false,
      hidden: this.#hidden,
    };
  }

  #field(name: string): HTMLInputElement | HTMLSelectElement | null {
    return this.querySelector(`[data-sets="${name}"]`);
  }

  async #load(box: Element): Promise<void> {
    this.#watcher?.unobserve(box);
    const stage = box.querySelector<HTMLElement>(".chart");
    if (!stage || this.#plots.has(box)) return;
    const address = new URL(this.dataset["points"] ?? "", location.href);
    address.searchParams.set("key", (box as HTMLElement).dataset["key"] ?? "");
    try {
      const answer = await fetch(address);
      if (!answer.ok) throw new Error(String(answer.status));
      const { series } = (await answer.json()) as { series: Series[] };
      if (!this.isConnected) return;
      const values = series.flatMap((each) => each.values);
      if (values.every((value) => value === null)) {
        const reason = values.length > 0 ? "None of its values is a finite number" : "It has no stored points";
        stage.innerHTML = `<p class="sub small">${reason}: there is no curve to draw.</p>`;
        return;
      }
      stage.replaceChildren();
      const plot = new CurvePlot(stage, series, this.#members, (reading) => this.#tell(box, reading));
      this.#plots.set(box, plot);
      plot.draw(this.#look);
    } catch {
      stage.innerHTML =
        '<p class="sub">The curve could not be loaded. <button type="button" class="btn" data-again>Try again</button></p>';
    }
  }

  #draw(): void {
    const look = this.#look;
    const output = this.querySelector(".curve-tools output");
    if (output) output.textContent = String(look.smoothing);
    for (const plot of this.#plots.values()) plot.draw(look);
  }

  #toggle(button: HTMLElement): void {
    const id = button.dataset["series"] ?? "";
    const isHidden = !this.#hidden.delete(id);
    if (isHidden) this.#hidden.add(id);
    button.setAttribute("aria-pressed", String(!isHidden));
    this.#draw();
  }

  #focus(id: string | null): void {
    for (const plot of this.#plots.values()) plot.focus(id);
  }

  #tell(box: Element, reading: { at: string; values: Map<string, string> } | null): void {
    const { along } = this.#look;
    const words = { step: "by step", relative: "by time since its start", time: "by time of day" };
    const place = box.querySelector("[data-axis]");
    const alone = reading?.values.size === 1 ? ` · ${[...reading.values.values()][0]}` : "";
    if (place) place.textContent = reading ? reading.at + alone : words[along];
    for (const button of this.querySelectorAll<HTMLElement>("button[data-series]")) {
      const output = button.querySelector("output");
      if (output) output.textContent = reading?.values.get(button.dataset["series"] ?? "") ?? "";
    }
  }

  #change(): void {
    const address = new URL(location.href);
    const { smoothing, along, isLog } = this.#look;
    const said = {
      smoothing: smoothing ? String(smoothing) : "",
      x: along === "step" ? "" : along,
      log: isLog ? "1" : "",
    };
    for (const [field, value] of Object.entries(said)) {
      const name = NAMES[field as keyof typeof NAMES];
      if (value) address.searchParams.set(name, value);
      else address.searchParams.delete(name);
    }
    history.replaceState(history.state, "", address);
    this.#draw();
    for (const box of this.#plots.keys()) this.#tell(box, null);
  }

  #readAddress(): void {
    const given = new URLSearchParams(location.search);
    const [smoothing, along, log] = (["smoothing", "x", "log"] as const).map((name) => this.#field(name));
    if (smoothing && given.has(NAMES.smoothing)) smoothing.value = given.get(NAMES.smoothing) ?? "0";
    if (along && ["relative", "time"].includes(given.get(NAMES.x) ?? "")) along.value = given.get(NAMES.x) as string;
    if (log instanceof HTMLInputElement) log.checked = given.has(NAMES.log);
    this.#draw();
  }
}
