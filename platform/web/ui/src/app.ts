// What every page loads: htmx for parts that change in place, and small behaviours keyed by data attributes.

import "htmx.org";
import "./styles/app.scss";
import { startBrokenPictures } from "./broken_pictures.ts";
import { startCopyButtons } from "./copy.ts";
import { startDialogs } from "./dialogs.ts";
import { startKeys } from "./keys.ts";
import { startLive } from "./live.ts";
import { LogView } from "./log_view.ts";
import { startMenus } from "./menus.ts";
import { startPolling } from "./polling.ts";
import { startNotes } from "./notes.ts";
import { startRefusals } from "./refusals.ts";
import { startRetry } from "./retry.ts";
import { startSearch } from "./search.ts";
import { startShownOnce } from "./shown_once.ts";
import { SeriesChart } from "./series_chart.ts";
import { startThemeSwitch } from "./theme_switch.ts";
import { startUnsent } from "./unsent.ts";

// A refused form stands on its page, but the browser is at the address that took it, which has no page.
const address = document.body.dataset["address"];
if (address) {
  history.replaceState(history.state, "", address);
  document.querySelector<HTMLElement>("main [aria-invalid=true]:not(dialog *)")?.focus();
}

startThemeSwitch();
startMenus();
startDialogs();
startCopyButtons();
startBrokenPictures();
startKeys();
startSearch();
startNotes();
startPolling();
startLive();
startShownOnce();
startRefusals();
startRetry();
startUnsent();
customElements.define("log-view", LogView);
customElements.define("series-chart", SeriesChart);

// Loaded on the pages that hold one and nowhere else.
if (document.querySelector("upload-panel")) {
  void import("./datasets/upload_panel.ts").then(({ UploadPanel }) =>
    customElements.define("upload-panel", UploadPanel),
  );
}
if (document.querySelector("flow-editor, text-diff")) {
  void import("./editor/elements.ts").then(({ FlowEditor, TextDiff }) => {
    customElements.define("flow-editor", FlowEditor);
    customElements.define("text-diff", TextDiff);
  });
}
if (document.querySelector("[data-experiments]")) void import("./experiments/index.ts");
if (document.getElementById("run-live")) void import("./run/page.ts").then(({ startRunPage }) => startRunPage());
if (document.querySelector("run-graph")) {
  void import("./run/graph.tsx").then(({ RunGraph }) => customElements.define("run-graph", RunGraph));
}
