// <series-chart>: mounts a chart from the JSON in its own <script type="application/json">. The drawing library is
// loaded on the pages that hold a chart and nowhere else.

export class SeriesChart extends HTMLElement {
  #remove: (() => void) | undefined;

  connectedCallback(): void {
    void import("./charts.ts").then(({ mount }) => {
      if (this.isConnected) this.#remove ??= mount(this);
    });
  }

  disconnectedCallback(): void {
    this.#remove?.();
    this.#remove = undefined;
  }
}
