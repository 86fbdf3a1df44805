// The two elements that load the editor's code only where a page holds them.

// <flow-editor>: mounts the editor over the plain form that it holds. While its code is not loaded, the form is shown.
export class FlowEditor extends HTMLElement {
  #remove: (() => void) | undefined;

  connectedCallback(): void {
    import("./mount.tsx").then(
      ({ mount }) => {
        if (this.isConnected) this.#remove ??= mount(this);
      },
      () => this.setAttribute("data-plain", ""),
    );
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
