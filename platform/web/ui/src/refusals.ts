// A form with hx-boost that the server refuses stays as it was sent, with the reason in it: at its field, which has the
// focus, where the server names one or there is but one, else at its beginning.

type Swap = CustomEvent<{ target: Element }>;

const REASON = ".refusal";
const FIELDS = "input:not([type=hidden], [type=checkbox], [type=radio]), select, textarea";

export function startRefusals(): void {
  document.addEventListener("htmx:beforeSwap", (event) => clear((event as Swap).detail.target));
  document.addEventListener("htmx:afterSwap", (event) => show((event as Swap).detail.target));
}

function clear(form: Element): void {
  form.querySelector(REASON)?.remove();
  form.querySelector("[aria-describedby=refusal]")?.removeAttribute("aria-invalid");
}

function show(form: Element): void {
  const reason = form.querySelector<HTMLElement>(REASON);
  if (!reason) return;
  const fields = [...form.querySelectorAll<HTMLInputElement>(FIELDS)];
  const field = fields.find(({ name }) => name === reason.dataset["field"]) ?? (fields.length === 1 ? fields[0] : null);
  if (field) {
    (field.closest("label") ?? field).after(reason);
    reason.className = "refusal error";
    document.getElementById("refusal")?.removeAttribute("id"); // that of another form on the page
    reason.id = "refusal";
    field.setAttribute("aria-invalid", "true");
    field.setAttribute("aria-describedby", reason.id);
  }
  (field ?? reason).focus();
}
