// Says when the server breaks or does not answer, and takes it back once it does. What is on the page stays as it is.

const PLACE = "toasts";
const ID = "server-note";

export function startNotes(): void {
  document.addEventListener("htmx:sendError", () => {
    showNote(
      "The server does not answer",
      "The page keeps its content and reloads it by itself. Your last action was not carried out.",
    );
  });
  document.addEventListener("htmx:beforeSwap", (event) => {
    const { detail } = event as CustomEvent<{ shouldSwap: boolean; xhr: XMLHttpRequest }>;
    // An error that was foreseen brings its own note, and says where it goes.
    if (detail.xhr.status < 500 || detail.xhr.getResponseHeader("HX-Retarget")) return;
    detail.shouldSwap = false;
    showNote(
      "Internal error",
      "The error is logged. Try again in a moment. If it persists, tell your administrator the time.",
    );
  });
  document.addEventListener("htmx:afterOnLoad", (event) => {
    if ((event as CustomEvent<{ xhr: XMLHttpRequest }>).detail.xhr.status < 400) document.getElementById(ID)?.remove();
  });
}

export function showNote(title: string, text: string): void {
  const note = document.createElement("div");
  note.id = ID;
  note.className = "toast-note error";
  note.setAttribute("role", "alert");
  const heading = document.createElement("b");
  heading.textContent = title;
  const body = document.createElement("div");
  body.append(heading, document.createElement("br"), text);
  note.append(body);
  const known = document.getElementById(ID);
  if (known?.textContent === note.textContent) return;
  known?.remove();
  document.getElementById(PLACE)?.append(note);
}
