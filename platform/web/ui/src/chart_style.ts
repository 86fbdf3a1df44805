// What all charts of uPlot look like: the colours of the theme, and quiet axes.

import type uPlot from "uplot";

export function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

export function axisStyle(): uPlot.Axis {
  return {
    stroke: colour("--secondary"),
    font: "11px Inter, system-ui, sans-serif",
    grid: { stroke: colour("--nl-line"), width: 1 },
    ticks: { show: false },
  };
}
