// The button that goes round light, dark and the system's wish. The choice is kept in this browser.

const CHOICES = ["system", "light", "dark"] as const;
type Choice = (typeof CHOICES)[number];

const systemIsDark = matchMedia("(prefers-color-scheme: dark)");

function chosen(): Choice {
  const kept = localStorage.getItem("theme");
  return kept === "light" || kept === "dark" ? kept : "system";
}

function next(choice: Choice): Choice {
  return CHOICES[(CHOICES.indexOf(choice) + 1) % CHOICES.length] ?? "system";
}

function show(button: HTMLButtonElement): void {
  const choice = chosen();
  const isDark = choice === "dark" || (choice === "system" && systemIsDark.matches);
  document.documentElement.dataset["bsTheme"] = isDark ? "dark" : "light";
  button.title = button.ariaLabel = `Theme: ${choice}. Click for ${next(choice)}.`;
  button.dataset["choice"] = choice;
  document.dispatchEvent(new CustomEvent("theme-changed"));
}

export function startThemeSwitch(): void {
  const button = document.querySelector<HTMLButtonElement>("[data-theme-switch]");
  if (!button) return;
  button.addEventListener("click", () => {
    localStorage.setItem("theme", next(chosen()));
    show(button);
  });
  systemIsDark.addEventListener("change", () => show(button));
  show(button);
}
