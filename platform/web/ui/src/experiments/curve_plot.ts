// One chart of curves: uPlot in the colours of the theme, with each line's number at its end, read by mouse or by keys.

import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { axisStyle, colour } from "../chart_style.ts";
import { formatDuration, formatMoment, formatNumber } from "../format.ts";
import { align, lonely, placesOf, smooth, spread, valueAt, type Along, type Line, type Series } from "./curves.ts";

export type Look = { smoothing: number; along: Along; isLog: boolean; hidden: ReadonlySet<string> };
export type Member = { id: string; number: number; hue: number };
type Reading = { at: string; values: Map<string, string> } | null;

const AXIS_PX = 28;
const LABEL_GAP_PX = 11;
const LABEL_ROOM_PX = 20;
const FAINT = "40";
const MOST_FAINT = 8;
const MOVES: Record<string, (at: number, last: number) => number> = {
  ArrowLeft: (at) => at - 1,
  ArrowRight: (at) => at + 1,
  Home: () => 0,
  End: (_at, last) => last,
};

export class CurvePlot {
  #plot: uPlot | undefined;
  #rows: number[] = [];
  #columns: (number | null | undefined)[][] = [];
  #shown: Member[] = [];
  #stage: HTMLElement;
  #series: Series[];
  #members: Member[];
  #read: (reading: Reading) => void;
  #watcher = new ResizeObserver(() =>
    this.#plot?.setSize({ width: this.#stage.clientWidth, height: this.#stage.clientHeight }),
  );

  constructor(stage: HTMLElement, series: Series[], members: Member[], read: (reading: Reading) => void) {
    this.#stage = stage;
    this.#series = series;
    this.#members = members;
    this.#read = read;
    stage.tabIndex = 0;
    stage.addEventListener("keydown", (event) => this.#move(event));
    stage.addEventListener("blur", () => this.#read(null));
    this.#watcher.observe(stage);
  }

  draw(look: Look): void {
    this.#shown = this.#members.filter(({ id }) => !look.hidden.has(id));
    const lines = this.#shown.map(({ id }) => this.#line(id, look));
    const smoothed = lines.map(({ x, y }) => ({ x, y: smooth(y, look.smoothing) }));
    const faint = look.smoothing > 0 && lines.length <= MOST_FAINT ? lines : [];
    [this.#rows, ...this.#columns] = align([...smoothed, ...faint]);
    this.#plot?.destroy();
    this.#plot = new uPlot(this.#options(look, faint.length), [this.#rows, ...this.#columns], this.#stage);
  }

  focus(id: string | null): void {
    const place = this.#shown.findIndex((member) => member.id === id);
    this.#plot?.setSeries(place < 0 ? null : place + 1, { focus: place >= 0 });
  }

  remove(): void {
    this.#watcher.disconnect();
    this.#plot?.destroy();
  }

  #line(id: string, look: Look): Line {
    const series = this.#series.find((each) => each.id === id);
    if (!series) return { x: [], y: [] };
    // A logarithm has no place for zero and below.
    const y = look.isLog ? series.values.map((value) => (value !== null && value > 0 ? value : null)) : series.values;
    return { x: placesOf(series, look.along), y };
  }

  #options(look: Look, faint: number): uPlot.Options {
    const axis = axisStyle();
    const lines = this.#shown.map(({ id, hue }) => ({
      stroke: colour(`--nl-hue-${hue}`),
      points: {
        show: this.#isShort(id),
        filter: (_plot: uPlot, place: number, isShown: boolean) =>
          isShown ? null : lonely(this.#columns[place - 1] ?? []),
      },
    }));
    return {
      width: this.#stage.clientWidth,
      height: this.#stage.clientHeight,
      padding: [8, this.#shown.length > 1 ? LABEL_ROOM_PX : 8, 0, 0],
      legend: { show: false },
      cursor: { points: { size: 6 }, drag: { x: true, y: false } },
      focus: { alpha: 0.2 },
      scales: { x: { time: look.along === "time" }, y: look.isLog ? { distr: 3 } : {} },
      axes: [
        {
          ...axis,
          size: AXIS_PX,
          grid: { show: false },
          ...(look.along === "relative"
            ? { values: (_plot: uPlot, ticks: number[]) => ticks.map(formatDuration) }
            : {}),
        },
        { ...axis, size: 60, values: (_plot, ticks) => ticks.map((tick) => (tick === null ? "" : formatNumber(tick))) },
      ],
      series: [
        {},
        ...lines.map((line) => ({ ...line, width: 1.6, spanGaps: false })),
        ...lines
          .slice(0, faint)
          .map((line) => ({ ...line, stroke: line.stroke + FAINT, width: 1, points: { show: false } })),
      ],
      hooks: {
        draw: [(plot) => this.#number(plot)],
        setCursor: [(plot) => this.#tell(plot, look.along)],
      },
    };
  }

  #isShort(id: string): boolean {
    return (this.#series.find((each) => each.id === id)?.values.length ?? 0) < 3;
  }

  /** Writes each line's number behind its last point, so that lines are told apart without their colours. */
  #number(plot: uPlot): void {
    if (this.#shown.length < 2) return;
    const ratio = devicePixelRatio;
    const ends = this.#shown.flatMap((member, place) => {
      const column = this.#columns[place] ?? [];
      const row = column.findLastIndex((value) => value != null);
      const x = this.#rows[row];
      return x === undefined
        ? []
        : [{ member, x: plot.valToPos(x, "x", true), y: plot.valToPos(column[row] as number, "y", true) }];
    });
    const { top, height, left, width } = plot.bbox;
    const gap = Math.min(LABEL_GAP_PX * ratio, height / ends.length);
    const ys = spread(
      ends.map(({ y }) => y),
      gap,
      top,
      top + height,
    );
    plot.ctx.save();
    plot.ctx.font = `600 ${11 * ratio}px Inter, system-ui, sans-serif`;
    plot.ctx.textBaseline = "middle";
    plot.ctx.textAlign = "left";
    ends.forEach(({ member, x }, place) => {
      plot.ctx.fillStyle = colour(`--nl-hue-${member.hue}`);
      plot.ctx.fillText(String(member.number), Math.min(x, left + width) + 4 * ratio, ys[place] as number);
    });
    plot.ctx.restore();
  }

  #tell(plot: uPlot, along: Along): void {
    const row = plot.cursor.idx;
    const place = row == null ? undefined : this.#rows[row];
    if (row == null || place === undefined || (plot.cursor.left ?? -1) < 0) {
      this.#read(null);
      return;
    }
    const values = this.#shown.map(({ id }, number) => {
      const value = valueAt(this.#columns[number] ?? [], row);
      return [id, value === null ? "–" : formatNumber(value)] as const;
    });
    const told = {
      step: `step ${place}`,
      relative: `after ${formatDuration(place)}`,
      time: formatMoment(new Date(place * 1000)),
    };
    this.#read({ at: told[along], values: new Map(values) });
  }

  #move(event: KeyboardEvent): void {
    const move = MOVES[event.key];
    const plot = this.#plot;
    if (!move || !plot) return;
    event.preventDefault();
    const last = this.#rows.length - 1;
    const row = Math.min(last, Math.max(0, move(plot.cursor.idx ?? -1, last)));
    const left = plot.valToPos(this.#rows[row] as number, "x");
    plot.setCursor({ left: Math.max(0, left), top: 1 });
  }
}
