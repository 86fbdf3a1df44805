import assert from "node:assert/strict";
import { test } from "node:test";
import { edit, placeOf, read } from "../src/editor/model/document.ts";
import { readFlow } from "../src/editor/model/flow.ts";
import * as patches from "../src/editor/model/patches.ts";

const FLOW = `# Handwritten digits: read the pictures once.
flow: digits
title: Handwritten digits   # shown on the page
parameters:
  test_share: {type: float, default: 0.25, help: "Share that no model sees."}

steps:
  - name: prepare
    # reads what was uploaded
    command: python prepare.py
    data: [{dataset: demo/digits@main, cached: true}]
    compute: [this-machine.small]   # small is enough


  - name: train
    command: |
      python train.py \\
        --from "$NEARLINE_INPUT/prepare/x.npy"
    after: [prepare]
    when: prepare.rows > 10 and not max(prepare.loss) > 2
    grid: {C: [0.01, 1, 10]}
# the last one
  - name: evaluate
    command: 'python evaluate.py'
    after:
      - prepare   # for the names
      - train
`;

const flowOf = (text: string) => readFlow(read(text).document);
const changed = (before: string, after: string) => {
  const [a, b] = [before.split("\n"), after.split("\n")];
  return { gone: a.filter((line) => !b.includes(line)), come: b.filter((line) => !a.includes(line)) };
};

test("an edit changes its own line and no other", () => {
  const text = edit(FLOW, (document) => patches.setStep(document, "prepare", ["command"], "python prepare.py --fast"));

  assert.deepEqual(changed(FLOW, text), {
    gone: ["    command: python prepare.py"],
    come: ["    command: python prepare.py --fast"],
  });
  assert.equal(text.split("\n").length, FLOW.split("\n").length);
});

test("what is edited to what it was stays as it was, to the byte", () => {
  const text = edit(FLOW, (document) => patches.setStep(document, "evaluate", ["command"], "python evaluate.py"));

  assert.equal(text, FLOW);
});

test("an edited line keeps the comment behind it", () => {
  const text = edit(FLOW, (document) => patches.setIn(document, ["title"], "Digits"));

  assert.match(text, /^title: Digits {1,3}# shown on the page$/m);
});

test("a list that loses an entry keeps the comments of the others", () => {
  const text = edit(FLOW, (document) => patches.disconnect(document, "train", "evaluate"));

  assert.deepEqual(changed(FLOW, text), { gone: ["      - train"], come: [] });
});

test("a new key is written at the end of its step", () => {
  const text = edit(FLOW, (document) => patches.setStep(document, "train", ["timeout"], "30m"));

  assert.deepEqual(changed(FLOW, text), { gone: [], come: ["    timeout: 30m"] });
  assert.equal(flowOf(text).steps[1]?.timeout, "30m");
});

test("the last key of a mapping takes the mapping with it", () => {
  const text = edit(FLOW, (document) => patches.setStep(document, "train", ["grid", "C"], undefined));

  assert.deepEqual(changed(FLOW, text), { gone: ["    grid: {C: [0.01, 1, 10]}"], come: [] });
});

test("a step that is added comes last, and those that wait for a removed one wait no more", () => {
  const added = edit(FLOW, (document) =>
    patches.addSteps(document, [{ name: "report", command: "a\nb\n", after: ["evaluate"] }]),
  );
  assert.ok(added.startsWith(FLOW));
  assert.equal(added.slice(FLOW.length), "  - name: report\n    command: |\n      a\n      b\n    after: [evaluate]\n");

  const removed = edit(added, (document) => patches.removeSteps(document, new Set(["prepare", "report"])));
  assert.deepEqual(
    flowOf(removed).steps.map(({ name, after }) => [name, after]),
    [
      ["train", []],
      ["evaluate", ["train"]],
    ],
  );
  assert.match(removed, /^# the last one$/m);
});

test("a flow that loses its last step and gets another is written well", () => {
  const none = edit("flow: f\nsteps:\n  - {name: a, command: c}\n", (document) =>
    patches.removeSteps(document, new Set(["a"])),
  );
  assert.equal(none, "flow: f\nsteps: []\n");

  const one = edit(none, (document) => patches.addSteps(document, [{ name: "b", command: "c" }]));
  assert.equal(one, "flow: f\nsteps:\n  - name: b\n    command: c\n");
});

test("a new name follows into arrows, conditions and the folder that children read", () => {
  const text = edit(FLOW, (document) => patches.renameStep(document, "prepare", "read"));
  const [first, second, third] = flowOf(text).steps;

  assert.equal(first?.name, "read");
  assert.deepEqual(second?.after, ["read"]);
  assert.equal(second?.when, "read.rows > 10 and not max(read.loss) > 2");
  assert.match(second?.command ?? "", /"\$NEARLINE_INPUT\/read\/x\.npy"/);
  assert.deepEqual(third?.after, ["read", "train"]);
  assert.match(text, /- read\s+# for the names/);
});

test("a dataset is added, replaced everywhere and removed", () => {
  const added = edit(FLOW, (document) => patches.addData(document, "demo/other", "train"));
  assert.deepEqual(changed(FLOW, added).come, ["    data: [{dataset: demo/other, cached: true}]"]);

  const replaced = edit(added, (document) => patches.replaceDataset(document, "demo/other", "demo/x@v1"));
  assert.equal(flowOf(replaced).steps[1]?.data[0]?.dataset, "demo/x@v1");

  const removed = edit(replaced, (document) => patches.removeData(document, "demo/x@v1"));
  assert.equal(removed, FLOW);
});

test("a launcher is there once it has a key, and goes with the last one", () => {
  const added = edit(FLOW, (document) => patches.setStep(document, "train", ["launcher"], { cpu: 0.5 }));
  assert.deepEqual(changed(FLOW, added).come, ["    launcher:", "      cpu: 0.5"]);
  assert.deepEqual(flowOf(added).steps[1]?.launcher, { cpu: "0.5", memory: "", worker_command: "", worker_port: "" });
  assert.equal(flowOf("flow: f\nsteps: [{name: a, command: c, launcher: {}}]\n").steps[0]?.launcher?.cpu, "");

  const removed = edit(added, (document) => patches.setStep(document, "train", ["launcher"], undefined));
  assert.equal(removed, FLOW);
  assert.equal(flowOf(removed).steps[1]?.launcher, null);
});

test("the ordered templates keep the comment and take waits", () => {
  const text = edit(FLOW, (document) =>
    patches.setStep(document, "prepare", ["compute"], ["this-machine.small", { template: "lab.big", wait: "5m" }]),
  );

  assert.deepEqual(flowOf(text).steps[0]?.compute, [
    { template: "this-machine.small", wait: "" },
    { template: "lab.big", wait: "5m" },
  ]);
  assert.match(text, /# small is enough/);
});

test("retries are as short as can be read back", () => {
  const set = (retries: object) =>
    edit("flow: f\nsteps:\n  - name: a\n    command: c\n    retries: 2\n", (document) =>
      patches.setRetries(document, "a", { user_error: 0, infrastructure: 3, out_of_memory: 0, timeout: 0, ...retries }),
    );

  assert.doesNotMatch(set({}), /retries/);
  assert.match(set({ user_error: 1 }), /retries: \{ ?user_error: 1 ?\}/);
});

test("what cannot be read is left as it is, and says where", () => {
  const broken = "flow: f\nsteps: [a\nb: {";

  assert.equal(
    edit(broken, (document) => patches.setIn(document, ["title"], "x")),
    broken,
  );
  assert.equal(read(broken).fault?.line, 3);
});

test("half-written files are shown as far as they go", () => {
  assert.deepEqual(flowOf("").steps, []);
  assert.deepEqual(flowOf("steps:").steps, []);
  assert.deepEqual(
    flowOf("steps:\n  -\n  - name: a\n    after: x\n    compute: t.s\n    retries: 5").steps.map(
      ({ name, after, compute, retries }) => [
        name,
        after,
        compute.map(({ template }) => template),
        retries.infrastructure,
      ],
    ),
    [
      ["", [], [], 3],
      ["a", [], ["t.s"], 5],
    ],
  );
  assert.equal(flowOf("tasks: []").isForeign, true);
});

test("an edit reaches into keys that are there but empty", () => {
  const text = edit("flow: f\nsteps:\n  - name: a\n    data:\n    command: c\n", (document) => {
    patches.addData(document, "p/d", "a");
    patches.setStep(document, "a", ["parameters", "lr"], 0.1);
  });

  assert.deepEqual(flowOf(text).steps[0]?.data, [{ dataset: "p/d", name: "", cached: true, start: "complete" }]);
  assert.deepEqual(flowOf(text).steps[0]?.parameters, { lr: 0.1 });
});

test("values that look like something else are quoted", () => {
  const text = edit("flow: f\nsteps: [{name: a, command: c}]\n", (document) => {
    patches.setStep(document, "a", ["parameters", "x"], "true");
    patches.setStep(document, "a", ["parameters", "y"], "${{ parameters.lr }}");
    patches.setStep(document, "a", ["command"], "echo: {hi} # no comment");
  });

  assert.deepEqual(flowOf(text).steps[0]?.parameters, { x: "true", y: "${{ parameters.lr }}" });
  assert.equal(flowOf(text).steps[0]?.command, "echo: {hi} # no comment");
});

test("a key is renamed where it stands", () => {
  const text = edit(FLOW, (document) => patches.renameKey(document, ["parameters"], "test_share", "share"));

  assert.match(text, /^ {2}share: \{type: float/m);
});

test("a place in the file is found for every path the server names", () => {
  const found = read(FLOW);

  assert.equal(placeOf(found, ["steps", 1, "grid", "C"]), 21);
  assert.equal(placeOf(found, ["steps", 2, "after", 1]), 27);
  assert.equal(placeOf(found, ["steps", 0, "nothing"]), 8);
  assert.equal(placeOf(found, ["nowhere"]), null);
});

// Any edit, in any order, on any style of file: it says what was asked, keeps every comment, and can be read.
test("random edits keep comments and meaning", () => {
  const random = (() => {
    let seed = 7;
    return (below: number) => (seed = (seed * 1103515245 + 12345) % 2147483648) % below;
  })();
  const styles = [
    FLOW,
    FLOW.replaceAll("{type", "{ type").replaceAll("25,", "25 ,"),
    FLOW.replace(/^ {2}(?=[- ] )/gm, ""),
  ];
  for (const start of styles) {
    let text = start;
    for (let round = 0; round < 120; round++) {
      const steps = flowOf(text).steps;
      const pick = steps[random(steps.length)]?.name ?? "";
      const other = steps[random(steps.length)]?.name ?? "";
      const expected: [
        (document: Parameters<typeof patches.setIn>[0]) => void,
        (after: ReturnType<typeof flowOf>) => boolean,
      ][] = [
        [
          (d) => patches.setStep(d, pick, ["env", "A"], `v: ${round}`),
          (f) => f.steps.some(({ env }) => env["A"] === `v: ${round}`),
        ],
        [
          (d) => patches.connect(d, other, pick),
          (f) => f.steps.some(({ name, after }) => name === pick && after.includes(other)),
        ],
        [
          (d) => patches.disconnect(d, other, pick),
          (f) => !f.steps.some(({ name, after }) => name === pick && after.includes(other)),
        ],
        [
          (d) => patches.addSteps(d, [{ name: `s${round}`, command: `a #${round}\n\nb`, after: [pick] }]),
          (f) => f.steps.at(-1)?.name === `s${round}`,
        ],
        [
          (d) => patches.setStep(d, pick, ["compute"], ["a.b", { template: "c.d", wait: round }]),
          (f) => f.steps.some(({ compute }) => compute[1]?.wait === String(round)),
        ],
        [
          (d) => patches.setStep(d, pick, ["env"], undefined),
          (f) => f.steps.some(({ name, env }) => name === pick && Object.keys(env).length === 0),
        ],
        [(d) => patches.renameStep(d, pick, pick), (f) => f.steps.some(({ name }) => name === pick)],
        [
          (d) => patches.setIn(d, ["parameters", `p${random(3)}`], { type: "int", default: round }),
          (f) => Object.values(f.parameters).some((p) => p.default === round),
        ],
      ];
      const [change, holds] = expected[random(expected.length)] as (typeof expected)[number];
      text = edit(text, change);
      assert.equal(read(text).fault, null, text);
      assert.ok(holds(flowOf(text)), `round ${round}`);
    }
    for (const comment of [
      "# Handwritten digits: read the pictures once.",
      "# shown on the page",
      "# reads what was uploaded",
      "# the last one",
    ]) {
      assert.ok(text.includes(comment), comment);
    }
  }
});

test("a name that holds signs of regular expressions is renamed as the text that it is", () => {
  const flow =
    "flow: f\nsteps:\n- name: (a+)+$\n  command: x\n- name: b\n  after: [(a+)+$]\n  command: cat $NEARLINE_INPUT/(a+)+$/x\n";
  const text = edit(flow, (document) => patches.renameStep(document, "(a+)+$", "$&"));
  assert.deepEqual(
    flowOf(text).steps.map(({ name, command }) => [name, command]),
    [
      ["$&", "x"],
      ["b", "cat $NEARLINE_INPUT/$&/x"],
    ],
  );
  assert.match(text, /after: \[ ?\$& ?\]/);
});
