// A form that is sent when the session has ended leads to the sign-in page. What was typed into it is kept in this tab
// until then, and stands in the form again on the page that follows the sign-in of the same person.

import { readFields, type Typed, writeFields } from "./fields.ts";
import { showNote } from "./notes.ts";

type Unsent = { user: string; page: string; form: number; typed: Typed[]; isSignedOut?: boolean };

const KEY = "unsent";

export function startUnsent(): void {
  const unsent = JSON.parse(sessionStorage.getItem(KEY) ?? "null") as Unsent | null;
  if (document.querySelector(".sign-in")) {
    // Who signs out on purpose is led to another page than the one with the form.
    if (!unsent || new URLSearchParams(location.search).get("next") !== unsent.page) return;
    keep({ ...unsent, isSignedOut: true });
    showNote("You are signed out", "Nothing was sent. What you typed is there again once you have signed in.");
    return;
  }
  const page = location.pathname + location.search;
  const user = document.body.dataset["user"] ?? "";
  const isOwn = unsent?.isSignedOut && unsent.user === user;
  if (isOwn && unsent.page === page) restore(unsent);
  if (!isOwn || unsent.page === page) sessionStorage.removeItem(KEY);
  document.addEventListener("submit", ({ target }) => {
    if (!(target instanceof HTMLFormElement) || target.method !== "post") return;
    const typed = readFields(target);
    if (typed.length > 0) keep({ user, page, form: [...document.forms].indexOf(target), typed });
  });
}

function keep(unsent: Unsent): void {
  sessionStorage.setItem(KEY, JSON.stringify(unsent));
}

function restore({ form, typed }: Unsent): void {
  const place = document.forms[form];
  if (!place) return;
  writeFields(place, typed);
  const dialog = place.closest("dialog");
  if (dialog && !dialog.open) dialog.showModal();
  showNote("You were signed out", "What you typed is here again. It was not sent.");
}
