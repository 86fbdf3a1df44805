// What stays where the editor cannot go on: the plain form, with the text as it was written, and what happened.

export function showPlainForm(host: HTMLElement, error: unknown, text?: string): void {
  const area = host.querySelector<HTMLTextAreaElement>("textarea[name=text]");
  if (area && text !== undefined) area.value = text;
  const note = document.createElement("div");
  note.className = "note bad";
  note.role = "alert";
  const title = document.createElement("b");
  title.textContent = "The editor stopped";
  const words = document.createElement("p");
  words.append(
    "The flow is here as text: nothing of it is lost. Save it, or reload the page to open the editor again. ",
    "If this happens again, tell your administrator what the browser says: ",
    Object.assign(document.createElement("code"), { textContent: String(error) }),
  );
  const button = document.createElement("button");
  [button.type, button.className, button.textContent] = ["button", "btn", "Reload"];
  button.addEventListener("click", () => location.reload());
  note.append(title, words, button);
  host.prepend(note);
  host.dataset["plain"] = "";
}
