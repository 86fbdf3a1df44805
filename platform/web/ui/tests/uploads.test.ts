import assert from "node:assert/strict";
import { test } from "node:test";
import { Meter } from "../src/datasets/meter.ts";
import { cleanFolder, isLitter, whyNot } from "../src/datasets/names.ts";
import { bodyOf, LARGE_BYTES, PIECE_BYTES, planParts, planRest, sizeOf } from "../src/datasets/parts.ts";
import { Queue, Refusal, type PartAnswer, type Progress, type Send } from "../src/datasets/queue.ts";
import { listChosen, takeEntries, topFolder, walk, type Found } from "../src/datasets/traversal.ts";
import { formatBytes, formatCounted, formatDuration } from "../src/format.ts";

type Tree = { [name: string]: Tree | string | Error };

function fileOf(path: string, content: string | { length: number }): Found {
  const file = new File([typeof content === "string" ? content : ""], path.split("/").at(-1) ?? "", {
    lastModified: 7,
  });
  if (typeof content !== "string") Object.defineProperty(file, "size", { value: content.length });
  return { path, file };
}

/** A folder whose reader hands out two entries at a time, as browsers hand out a hundred. */
function entryOf(name: string, content: Tree | string | Error): FileSystemEntry {
  const isDirectory = typeof content !== "string" && !(content instanceof Error);
  return {
    name,
    isDirectory,
    file(resolve: (file: File) => void, reject: (error: Error) => void) {
      if (content instanceof Error) reject(content);
      else resolve(new File([content as string], name));
    },
    createReader() {
      const rest = Object.entries(content as Tree).map(([child, inside]) => entryOf(child, inside));
      return { readEntries: (resolve: (entries: FileSystemEntry[]) => void) => resolve(rest.splice(0, 2)) };
    },
  } as unknown as FileSystemEntry;
}

test("folders are walked to their end, in the order of paths", async () => {
  const tree = entryOf("digits", {
    "3.png": "3",
    train: { "1.png": "1", "2.png": "2", "0.png": "0" },
    ".DS_Store": "",
  });

  const listing = await walk([tree, entryOf("a.txt", "a")]);

  assert.deepEqual(
    listing.found.map(({ path }) => path),
    ["a.txt", "digits/3.png", "digits/train/0.png", "digits/train/1.png", "digits/train/2.png"],
  );
  assert.equal(listing.litter, 1);
});

test("what cannot be read or carried is left out with its reason", async () => {
  const listing = await walk([entryOf("x", { locked: new Error("no right to read"), ".nearline": { state: "" } })]);

  assert.deepEqual(listing.found, []);
  assert.deepEqual(
    listing.leftOut.sort((a, b) => a.path.localeCompare(b.path)),
    [
      { path: "x/.nearline/state", why: "'.nearline' folders belong to workspaces" },
      { path: "x/locked", why: "no right to read" },
    ],
  );
});

test("the entries of a drop are taken before it ends", () => {
  const entry = entryOf("a.txt", "a");
  const items = [{ webkitGetAsEntry: () => entry }, { webkitGetAsEntry: () => null }] as unknown as DataTransferItem[];

  assert.deepEqual(takeEntries(items), [entry]);
});

test("a chosen folder keeps its paths, chosen files their names", () => {
  const inside = new File(["1"], "1.png");
  Object.defineProperty(inside, "webkitRelativePath", { value: "digits/1.png" });

  assert.deepEqual(
    listChosen([inside, new File(["a"], "a.txt")]).found.map(({ path }) => path),
    ["a.txt", "digits/1.png"],
  );
});

test("the folder that all files lie in is known", () => {
  const inside = ["digits/1.png", "digits/train/2.png"].map((path) => fileOf(path, ""));

  assert.equal(topFolder(inside), "digits");
  assert.equal(topFolder([...inside, fileOf("a.txt", "")]), null);
  assert.equal(topFolder([fileOf("digits.txt", "")]), null);
});

test("names are refused by the rules of the format", () => {
  assert.equal(whyNot("a/b c/ü.txt"), null);
  for (const path of ["a//b", "../a", "a\0", "x/.Nearline/y", `${"n".repeat(256)}`, `${"ü".repeat(128)}`]) {
    assert.notEqual(whyNot(path), null, path);
  }
  assert.equal(isLitter("a/Thumbs.db"), true);
  assert.equal(cleanFolder("/train//x/ "), "train/x");
});

test("small files share parts and a large one has its own", () => {
  const files = [
    ...Array.from({ length: 1001 }, (_, n) => fileOf(`${n}`, "x")),
    fileOf("large", { length: LARGE_BYTES + 1 }),
  ];

  const parts = planParts(files, 5);

  assert.deepEqual(
    parts.map(({ number, files: inside, isLarge }) => [number, inside.length, isLarge]),
    [
      [5, 1000, false],
      [6, 1, true],
      [7, 1, false],
    ],
  );
  assert.equal(sizeOf(parts[1]?.files ?? []), LARGE_BYTES + 1);
});

test("a body is a length, a description, and the bytes", async () => {
  const [part] = planParts([fileOf("ü.txt", "abc"), fileOf("b", "de")]);
  assert.ok(part);
  const bytes = new Uint8Array(await bodyOf(part, 0).arrayBuffer());
  const length = new DataView(bytes.buffer).getUint32(0);

  assert.deepEqual(JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + length))), {
    files: [
      { path: "ü.txt", size_bytes: 3, mtime_ms: 7 },
      { path: "b", size_bytes: 2, mtime_ms: 7 },
    ],
    offset: 0,
  });
  assert.equal(new TextDecoder().decode(bytes.subarray(4 + length)), "abcde");
});

async function run(files: Found[], send: Send): Promise<{ seen: Progress[]; waits: number[] }> {
  const seen: Progress[] = [];
  const waits: number[] = [];
  const queue = new Queue(planParts(files), {
    send,
    onProgress: (progress) => seen.push(progress),
    wait: (seconds) => Promise.resolve(void waits.push(seconds)),
    atOnce: 1,
  });
  await queue.run();
  return { seen, waits };
}

test("what a broken connection cuts off is sent again, waiting longer each time", async () => {
  let failures = 3;
  const send: Send = () =>
    failures-- > 0 ? Promise.reject(new TypeError("gone")) : Promise.resolve({ next_offset: null });

  const { seen, waits } = await run([fileOf("a", "abc")], send);

  assert.deepEqual(waits, [1, 2, 4]);
  assert.deepEqual(seen.at(-1), { files: 1, bytes: 3, retryInS: null });
});

test("a large file goes on where the server says", async () => {
  const offsets: number[] = [];
  const answers: PartAnswer[] = [{ next_offset: 20 * 2 ** 20 }, { next_offset: null }];
  const large = fileOf("large", { length: PIECE_BYTES + 5 });
  const send: Send = async (_part, body) => {
    const bytes = new Uint8Array(await body.slice(0, 200).arrayBuffer());
    const length = new DataView(bytes.buffer).getUint32(0);
    offsets.push((JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + length))) as { offset: number }).offset);
    return answers.shift() ?? { next_offset: null };
  };

  const { seen } = await run([large], send);

  assert.deepEqual(offsets, [0, 20 * 2 ** 20]);
  assert.equal(seen.at(-1)?.bytes, PIECE_BYTES + 5);
});

test("what the server refuses ends the upload in its words", async () => {
  const send: Send = () => Promise.reject(new Refusal("There is no space.", "datasets.upload_too_large"));

  await assert.rejects(run([fileOf("a", "a"), fileOf("b", "b")], send), /There is no space/);
});

test("a file that vanished is told and not sent for ever", async () => {
  const gone = fileOf("gone.txt", "abc");
  gone.file.slice = () => ({ arrayBuffer: () => Promise.reject(new Error("NotReadable")) }) as unknown as Blob;

  await assert.rejects(
    run([gone], () => Promise.reject(new TypeError("failed"))),
    /'gone.txt' changed or vanished/,
  );
});

test("a stopped queue sends nothing more", async () => {
  let sent = 0;
  const queue: Queue = new Queue(planParts([fileOf("a", "a"), fileOf("l", { length: LARGE_BYTES + 1 })]), {
    send: () => {
      sent += 1;
      queue.stop();
      return Promise.resolve({ next_offset: null });
    },
    onProgress: () => undefined,
    wait: () => Promise.resolve(),
    atOnce: 1,
  });

  await queue.run();

  assert.equal(sent, 1);
});

test("the rate is that of the last seconds", () => {
  const meter = new Meter();
  assert.equal(meter.rate(), null);
  for (let second = 0; second <= 20; second += 1) meter.note(second < 10 ? 0 : (second - 10) * 1000, second * 1000);

  assert.equal(meter.rate(), 1000);
  assert.equal(meter.secondsTo(15_000), 5);
});

test("quantities are written as the server writes them", () => {
  assert.deepEqual([0, 999, 1500, 99_950_000, 4.2e9].map(formatBytes), ["0 B", "999 B", "1.5 kB", "100 MB", "4.2 GB"]);
  assert.deepEqual([0.44, 12, 200, 7500, 86400].map(formatDuration), [
    "0.4 s",
    "12 s",
    "3 min 20 s",
    "2 h 5 min",
    "1 d",
  ]);
  assert.deepEqual([formatCounted(1, "file"), formatCounted(1797, "file")], ["1 file", "1,797 files"]);
});

test("an interrupted upload goes on with what has not come", () => {
  const large = fileOf("large", { length: PIECE_BYTES });
  const chosen = [fileOf("a", "abc"), fileOf("b", "de"), large];
  const arrived = {
    items: [{ path: "a", size_bytes: 3, mtime_ms: 7 }],
    unfinished: [{ number: 2, path: "large", size_bytes: 5, mtime_ms: 7 }],
    next_number: 3,
  };

  const plan = planRest(chosen, arrived);

  assert.deepEqual(plan?.there, [chosen[0]]);
  assert.deepEqual(plan?.parts, [
    { number: 2, files: [large], isLarge: true, startsAt: 5 },
    { number: 3, files: [chosen[1]], isLarge: false, startsAt: 0 },
  ]);
  assert.equal(planRest([fileOf("other", "x")], arrived), null);
});
