// From what is written to a version, and from a version to a run.

import htmx from "htmx.org";
import { ApiError, call } from "./api.ts";
import { fromVersion } from "./drafting.ts";
import type { Editor } from "./editor.ts";
import { isRequired } from "./flow.ts";

type Published = { flow: string; number: number; hash: string; newest_version: number };

// Keeps what is written as a version. Returns null, and has said why, when it cannot be kept.
export async function publish({ store, drafting, config }: Editor): Promise<Published | null> {
  await drafting.hush();
  const moment = store.now;
  const { key } = drafting.place;
  const body = {
    project: config.project,
    key,
    text: moment.text,
    layout: moment.layout,
    base_version: drafting.base,
    example: drafting.example,
  };
  try {
    const published = await call<Published>("POST", "/flows/publish", body);
    drafting.settle(published.flow, moment, published.newest_version);
    history.replaceState(null, "", addressOf(config.project, published.flow, "edit/"));
    document.querySelector("[data-flow-name]")?.replaceChildren(published.flow);
    const isOlder = published.number !== published.newest_version;
    store.say(
      isOlder
        ? `Version ${published.number} has the same content; version ${published.newest_version} is still the newest.`
        : `Version ${published.number} of ${published.flow} is kept.`,
    );
    return published;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    const isMoved = error.code === "flows.flow_moved";
    if (isMoved && error.details["flow"] === key) drafting.other = fromVersion(error.details);
    else
      store.say(
        isMoved
          ? `There is a flow called ${String(error.details["flow"])} already. Choose another name.`
          : error.message,
      );
    drafting.resume();
    return null;
  }
}

// Starts a run: at once when nothing has to be filled in, else by the form that the server makes of the parameters.
export async function run(editor: Editor, { asks = false }: { asks?: boolean } = {}): Promise<void> {
  const { store, drafting, config } = editor;
  const version = drafting.isDirty
    ? await publish(editor)
    : { flow: drafting.place.key, number: drafting.base, hash: "" };
  if (!version) return;
  const needsForm = asks || Object.values(store.state.flow.parameters).some(isRequired);
  if (needsForm) {
    openForm(`${addressOf(config.project, version.flow, "run/")}?version=${version.number}`);
    return;
  }
  try {
    const path = `/flows/${config.project}/${version.flow}/runs`;
    const { url } = await call<{ url: string }>("POST", path, { parameters: {}, version: String(version.number) });
    location.assign(new URL(url).pathname);
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    store.say(error.message);
  }
}

export function addressOf(project: string, flow: string, rest = ""): string {
  return `/flows/${encodeURIComponent(project)}/${encodeURIComponent(flow)}/${rest}`;
}

// The form is server HTML, in a dialog that opens by itself when it arrives.
function openForm(address: string): void {
  void htmx.ajax("get", address, { target: "#run-form", swap: "innerHTML" });
}
