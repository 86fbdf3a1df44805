// <flow-editor>: mounts the editor over the plain form that it holds. Until its code is here, and where it cannot come,
// the form is what people have.

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
