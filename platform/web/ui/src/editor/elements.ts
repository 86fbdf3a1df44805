// The two elements that load the editor's code only where a page holds them.

import { showPlainForm } from "./fallback.ts";

// <flow-editor>: mounts the editor over the plain form that it holds, which is shown where the editor cannot be.
export class FlowEditor extends HTMLElement {
  #remove: (() => void) | undefined;

  connectedCallback(): void {
    import("./mount.tsx")
      .then(({ mount }) => {
        if (this.isConnected) this.#remove ??= mount(this);
      })
      .catch((error: unknown) => {
        reportError(error);
        showPlainForm(this, error);
      });
  }

  disconnectedCallback(): void {
    this.#remove?.();
    this.#remove = undefined;
  }
}

// <text-diff>: shows the two texts that it holds side by side; without script both stand below each other.
export class TextDiff extends HTMLElement {
  #remove: (() => void) | undefined;

  connectedCallback(): void {
    const [left, right] = this.querySelectorAll("pre");
    if (!left || !right) return;
    void import("./text/merge_view.ts").then(({ showBoth }) => {
      if (!this.isConnected || this.#remove) return;
      const stage = document.createElement("div");
      this.append(stage);
      const labels = [left.ariaLabel ?? "Before", right.ariaLabel ?? "After"] as const;
      const { remove } = showBoth(stage, left.textContent, right.textContent, labels, false);
      this.dataset["shown"] = "";
      this.#remove = remove;
    });
  }

  disconnectedCallback(): void {
    this.#remove?.();
    this.#remove = undefined;
  }
}
