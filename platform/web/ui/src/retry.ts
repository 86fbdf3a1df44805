// A page that says that the server is away asks by itself whether it is back, and is loaded again then. It stays as it
// is until then, so that nothing moves under a reader. Each question comes later than the one before, by some chance,
// since all who were sent away ask; a tab that is hidden does not ask.

const FIRST_S = 5;
const LONGEST_S = 60;
const UNAVAILABLE = 503;

export function startRetry(): void {
  const note = document.querySelector<HTMLElement>("[data-retries]");
  if (!note) return;
  note.hidden = false;
  wait(FIRST_S);
}

function wait(seconds: number): void {
  setTimeout(() => void ask(seconds), 1000 * seconds * (1 + Math.random() / 2));
}

async function ask(seconds: number): Promise<void> {
  if (document.hidden || !(await isBack())) wait(Math.min(2 * seconds, LONGEST_S));
  else location.reload();
}

async function isBack(): Promise<boolean> {
  try {
    return (await fetch(location.href, { headers: { Accept: "text/html" } })).status !== UNAVAILABLE;
  } catch {
    return false; // nothing answers at all
  }
}
