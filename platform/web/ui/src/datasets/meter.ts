// How quick it goes: the rate over the last seconds, and how long the rest takes at that rate.

const WINDOW_MS = 10_000;

export class Meter {
  #samples: { at: number; bytes: number }[] = [];

  note(bytes: number, at: number): void {
    this.#samples.push({ at, bytes });
    while (this.#samples.length > 2 && at - (this.#samples[0]?.at ?? at) > WINDOW_MS) this.#samples.shift();
  }

  /** Bytes a second; null while nothing can be said. */
  rate(): number | null {
    const first = this.#samples[0];
    const last = this.#samples.at(-1);
    if (!first || !last || last.at - first.at < 500) return null;
    return Math.max(0, ((last.bytes - first.bytes) / (last.at - first.at)) * 1000);
  }

  /** Seconds until `total` bytes; null while nothing can be said. */
  secondsTo(total: number): number | null {
    const rate = this.rate();
    const done = this.#samples.at(-1)?.bytes ?? 0;
    return rate ? Math.max(0, total - done) / rate : null;
  }
}
