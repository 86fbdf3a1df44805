// <parallel-coordinates>: an axis a parameter or metric, a line an experiment with its number at both ends. Dragging
// along an axis, or moving its two handles by keys, keeps the lines that go through there; a double click lets all go.

import { spread } from "./curves.ts";
import {
  apart,
  type Axis,
  bridgesOf,
  isWithin,
  pathOf,
  type Range,
  rangeOf,
  type Scale,
  scaleOf,
  shortened,
} from "./parallel.ts";

type Source = { axes: Axis[]; lines: { id: string; title: string; hue: number }[] };

const NS = "http://www.w3.org/2000/svg";
const [TOP, HEIGHT, BELOW, LEFT, RIGHT, MIN_GAP] = [46, 230, 14, 56, 110, 104];
const [TICK_PX, NUMBER_PX, LINE_PX, BETWEEN_PX] = [12, 90, 12, 8];
const FULL: Range = { low: 0, high: 1 };
const STEPS: Record<string, number> = {
  ArrowUp: 1,
  ArrowDown: -1,
  ArrowRight: 1,
  ArrowLeft: -1,
  PageUp: 4,
  PageDown: -4,
};

export class ParallelCoordinates extends HTMLElement {
  #source: Source = { axes: [], lines: [] };
  #scales: Scale[] = [];
  #places: (number | null)[][] = [];
  #ranges = new Map<number, Range>();
  #svg = make("svg", { role: "group", "aria-label": "Parallel coordinates" });
  #watcher = new ResizeObserver(() => this.#draw());

  connectedCallback(): void {
    const text = document.getElementById(this.dataset["source"] ?? "")?.textContent;
    if (!text) return;
    this.#source = JSON.parse(text) as Source;
    this.#scales = this.#source.axes.map(scaleOf);
    this.#places = this.#source.lines.map((_, line) =>
      this.#source.axes.map((axis, number) => this.#scales[number]?.place(axis.values[line] ?? null) ?? null),
    );
    this.append(this.#svg);
    this.#watcher.observe(this);
  }

  disconnectedCallback(): void {
    this.#watcher.disconnect();
  }

  #draw(): void {
    const count = this.#source.axes.length;
    const width = Math.max(this.clientWidth, LEFT + RIGHT + MIN_GAP * (count - 1));
    const gap = (width - LEFT - RIGHT) / Math.max(1, count - 1);
    const xs = this.#source.axes.map((_, axis) => LEFT + axis * gap);
    this.#svg.setAttribute("viewBox", `0 0 ${width} ${TOP + HEIGHT + BELOW}`);
    this.#svg.setAttribute("width", String(width));
    this.#svg.setAttribute("height", String(TOP + HEIGHT + BELOW));
    this.#svg.replaceChildren(
      ...this.#lines(xs),
      ...this.#source.axes.map((axis, number) => this.#axis(axis, number, xs[number] as number)),
      ...this.#numbers(xs),
    );
    const nameWidth = Math.min(gap - BETWEEN_PX, 2 * LEFT);
    for (const name of this.#svg.querySelectorAll<SVGTextElement>(".name")) fit(name, nameWidth);
    this.#svg.querySelectorAll(".axis").forEach((axis, number) => {
      const most = number === count - 1 ? NUMBER_PX - TICK_PX - BETWEEN_PX : gap - 2 * TICK_PX - BETWEEN_PX;
      for (const tick of axis.querySelectorAll<SVGTextElement>(".tick")) fit(tick, most);
    });
    this.#mark();
  }

  #lines(xs: number[]): SVGElement[] {
    return this.#source.lines.map(({ title, hue }, line) => {
      const places = this.#places[line] ?? [];
      const group = make("g", { class: `line hue-${hue}`, "data-line": line });
      group.append(
        make("title", {}, `${line + 1} ${title}`),
        make("path", { d: pathOf(places, xs, TOP, HEIGHT) }),
        make("path", { d: bridgesOf(places, xs, TOP, HEIGHT), class: "bridge" }),
      );
      return group;
    });
  }

  /** The number of each line beside the first and the last axis on which it stands. */
  #numbers(xs: number[]): SVGElement[] {
    return [xs.length - 1, 0].flatMap((axis) => {
      const standing = this.#source.lines.map((_, line) => line).filter((line) => this.#places[line]?.[axis] != null);
      const ys = spread(
        standing.map((line) => y(this.#places[line]?.[axis] as number)),
        Math.min(11, HEIGHT / standing.length),
        TOP,
        TOP + HEIGHT,
      );
      const isLast = axis > 0;
      return standing.map((line, place) =>
        make(
          "text",
          {
            x: (xs[axis] as number) + (isLast ? NUMBER_PX : -TICK_PX),
            y: (ys[place] as number) + 4,
            "text-anchor": isLast ? "start" : "end",
            class: "number",
            "data-line": line,
          },
          String(line + 1),
        ),
      );
    });
  }

  #axis(axis: Axis, number: number, x: number): SVGElement {
    const group = make("g", { class: "axis", transform: `translate(${x} 0)` });
    const ticks = apart(this.#scales[number]?.ticks ?? [], LINE_PX / HEIGHT);
    group.append(
      make("text", { x: 0, y: 14, "text-anchor": "middle", class: "name" }, axis.label),
      make(
        "text",
        { x: 0, y: 29, "text-anchor": "middle", class: "kind" },
        axis.kind === "metrics" ? `${axis.low_is_good ? "low" : "high"} is good` : "parameter",
      ),
      make("line", { x1: 0, x2: 0, y1: TOP, y2: TOP + HEIGHT }),
      ...ticks.map(({ at, label }) => make("text", { x: TICK_PX, y: y(at) + 4, class: "tick" }, label)),
      this.#brush(number),
      make("rect", { class: "range", x: -6, width: 12, "data-range": number }),
      ...(["low", "high"] as const).map((end) => this.#handle(axis, number, end)),
    );
    return group;
  }

  #brush(number: number): SVGElement {
    const area = make("rect", { class: "brush", x: -14, width: 28, y: TOP, height: HEIGHT });
    const placeOf = (event: PointerEvent) => 1 - (event.clientY - this.#svg.getBoundingClientRect().top - TOP) / HEIGHT;
    area.addEventListener("pointerdown", (down) => {
      area.setPointerCapture(down.pointerId);
      const from = placeOf(down);
      const drag = (move: PointerEvent) => this.#set(number, rangeOf(from, placeOf(move)) ?? FULL);
      area.addEventListener("pointermove", drag);
      area.addEventListener("pointerup", () => area.removeEventListener("pointermove", drag), { once: true });
    });
    area.addEventListener("dblclick", () => this.#set(number, FULL));
    return area;
  }

  #handle(axis: Axis, number: number, end: "low" | "high"): SVGElement {
    const handle = make("rect", {
      class: "handle",
      x: -9,
      width: 18,
      height: 6,
      rx: 2,
      role: "slider",
      tabindex: 0,
      "aria-orientation": "vertical",
      "aria-valuemin": 0,
      "aria-valuemax": 100,
      "aria-label": `${axis.label}: ${end === "low" ? "from" : "up to"}`,
      "data-handle": `${number} ${end}`,
    });
    handle.addEventListener("keydown", (event) => {
      const range = { ...(this.#ranges.get(number) ?? FULL) };
      const step = STEPS[event.key];
      if (event.key === "Escape") this.#set(number, FULL);
      else if (event.key === "Home" || event.key === "End") range[end] = event.key === "Home" ? 0 : 1;
      else if (step !== undefined) range[end] += step * (this.#scales[number]?.step ?? 0.05);
      else return;
      event.preventDefault();
      if (event.key !== "Escape") this.#set(number, rangeOf(range.low, range.high, 0) ?? FULL);
    });
    return handle;
  }

  #set(axis: number, range: Range): void {
    if (range.low <= 0 && range.high >= 1) this.#ranges.delete(axis);
    else this.#ranges.set(axis, range);
    this.#mark();
  }

  /** Dims what is outside, moves handles to their ranges, and says how many lines are left. */
  #mark(): void {
    const within = this.#places.map((places) => isWithin(places, this.#ranges));
    for (const part of this.#svg.querySelectorAll<SVGElement>("[data-line]"))
      part.classList.toggle("off", !within[Number(part.dataset["line"])]);
    this.#source.axes.forEach((_, axis) => {
      const { low, high } = this.#ranges.get(axis) ?? FULL;
      const rect = this.#svg.querySelector(`[data-range="${axis}"]`);
      set(rect, {
        y: y(high),
        height: (high - low) * HEIGHT,
        visibility: this.#ranges.has(axis) ? "visible" : "hidden",
      });
      for (const [end, at] of [
        ["low", low],
        ["high", high],
      ] as const) {
        const handle = this.#svg.querySelector(`[data-handle="${axis} ${end}"]`);
        set(handle, {
          y: y(at) - (end === "high" ? 6 : 0),
          "aria-valuenow": Math.round(at * 100),
          "aria-valuetext": this.#nearest(axis, at),
        });
      }
    });
    const kept = within.filter(Boolean).length;
    const said = this.parentElement?.querySelector("[data-said]");
    if (said && this.#ranges.size)
      said.textContent = `${kept} of ${within.length} within: ${within.flatMap((isIn, line) => (isIn ? [line + 1] : [])).join(", ") || "none"}`;
    else if (said) said.textContent = "drag along an axis, or use its handles, to filter";
  }

  #nearest(axis: number, at: number): string {
    const ticks = this.#scales[axis]?.ticks ?? [];
    return [...ticks].sort((a, b) => Math.abs(a.at - at) - Math.abs(b.at - at))[0]?.label ?? "";
  }
}

function y(place: number): number {
  return TOP + (1 - place) * HEIGHT;
}

/** Shortens a text that is drawn to a width, and keeps the whole of it as its title. */
function fit(text: SVGTextElement, width: number): void {
  const whole = text.textContent;
  let letters = Math.ceil((whole.length * width) / text.getComputedTextLength());
  while (letters > 1 && text.getComputedTextLength() > width) text.textContent = shortened(whole, --letters);
  if (text.textContent !== whole) text.append(make("title", {}, whole));
}

function make(name: string, attributes: Record<string, string | number>, text = ""): SVGElement {
  const element = document.createElementNS(NS, name) as SVGElement;
  set(element, attributes);
  if (text) element.textContent = text;
  return element;
}

function set(element: Element | null, attributes: Record<string, string | number>): void {
  for (const [name, value] of Object.entries(attributes)) element?.setAttribute(name, String(value));
}
