// Sets the theme before the first paint. Loaded as a small blocking script, so that no page flashes in the wrong colours.

function setTheme(): void {
  const wish = localStorage.getItem("theme");
  const isDark = wish === "dark" || (wish !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.dataset["bsTheme"] = isDark ? "dark" : "light";
}

setTheme();
