// Curves over steps or seconds, drawn by uPlot in the colours of the theme.

import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { flatRange } from "./chart_range.ts";
import { axisStyle, colour } from "./chart_style.ts";
import { formatNumber } from "./format.ts";

type Series = { label: string; hue: number; values: (number | null)[]; dashed: boolean };
type Chart = {
  x: number[];
  x_label: string;
  unit: string;
  series: Series[];
  x_range: [number, number] | null;
};

const HEIGHT_PX = 200;

export function mount(host: HTMLElement): () => void {
  const chart = JSON.parse(host.querySelector("script")?.textContent ?? "null") as Chart;
  const stage = document.createElement("div");
  stage.className = "chart";
  host.append(stage);
  let plot = draw(chart, stage);
  const redraw = () => {
    plot.destroy();
    plot = draw(chart, stage);
  };
  const watcher = new ResizeObserver(() => plot.setSize({ width: stage.clientWidth, height: HEIGHT_PX }));
  watcher.observe(stage);
  document.addEventListener("theme-changed", redraw);
  return () => {
    watcher.disconnect();
    document.removeEventListener("theme-changed", redraw);
    plot.destroy();
    stage.remove();
  };
}

function draw(chart: Chart, stage: HTMLElement): uPlot {
  const axis = axisStyle();
  const format = (value: number) => `${formatNumber(value)}${chart.unit}`;
  const options: uPlot.Options = {
    width: stage.clientWidth,
    height: HEIGHT_PX,
    legend: { show: chart.series.length > 1 },
    scales: {
      x: { time: false, ...(chart.x_range && { range: chart.x_range }) },
      y: { range: (_plot, least, most) => flatRange(least, most) ?? uPlot.rangeNum(least, most, 0.1, true) },
    },
    axes: [
      { ...axis, grid: { show: false } },
      { ...axis, size: 64, values: (_plot, ticks) => ticks.map(format) },
    ],
    series: [
      { label: chart.x_label },
      ...chart.series.map(({ label, hue, values, dashed }) => ({
        label,
        stroke: colour(`--nl-hue-${hue}`),
        width: 1.6,
        ...(dashed && { dash: [4, 4] }),
        points: { show: values.filter((value) => value !== null).length < 3, fill: colour(`--nl-hue-${hue}`) },
        spanGaps: true,
        value: (_plot: uPlot, value: number | null) => (value === null ? "–" : format(value)),
      })),
    ],
  };
  return new uPlot(options, [chart.x, ...chart.series.map(({ values }) => values)], stage);
}
