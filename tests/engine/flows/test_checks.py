import json
from pathlib import Path

import pytest

from flows.engine import checks, spec

GOOD = """
flow: digits
parameters:
  folds: {type: int, default: 3, choices: [3, 5], help: "How many folds"}
steps:
  - name: prepare
    command: python prepare.py --folds ${{ parameters.folds }}
    data: [{dataset: demo/digits@main}]
    compute: this-machine.small
  - name: train
    command: python train.py
    after: [prepare]
    grid: {C: [0.1, 1, 10]}
    retries: 2
    timeout: 1h
    compute: [lab.gpu-1, {template: this-machine.small, wait: 30s}]
  - name: evaluate
    command: python evaluate.py
    after: [train]
    when: max(train.accuracy) >= 0.9
    env: {PORT: 8000, DEBUG: true}
"""


def problems_of(text: str, file_format: str = "yaml") -> list[tuple[int | None, str, str]]:
    return [(item.line, item.path, item.message) for item in checks.check(text, file_format).problems]


def test_a_good_file_has_no_problems_and_reads_as_it_says():
    checked = checks.check(GOOD, "yaml")

    assert checked.problems == ()
    assert checked.spec is not None
    prepare, train, evaluate = checked.spec.steps
    assert prepare.data[0].folder == "digits"
    assert prepare.data[0].cached is True
    assert train.timeout == 3600
    assert train.retries == spec.Retries(user_error=2, infrastructure=3, out_of_memory=2, timeout=2)
    assert [(choice.template, choice.wait_s) for choice in train.compute] == [
        ("lab.gpu-1", 300.0),
        ("this-machine.small", 30.0),
    ]
    assert evaluate.env == {"PORT": "8000", "DEBUG": "true"}


def test_json_and_yaml_of_the_same_flow_have_the_same_version():
    yaml = checks.check(GOOD, "yaml").spec
    as_json = checks.check(json.dumps(json.loads(spec.canonical_json(yaml))), "json").spec

    assert spec.version_hash(as_json) == spec.version_hash(yaml)


def test_code_that_comes_along_changes_the_version():
    flow = checks.check(GOOD, "yaml").spec

    assert spec.version_hash(flow, "ab" * 32) != spec.version_hash(flow)


def test_all_problems_are_told_at_once_each_with_its_line():
    text = """\
flow: digits
parameters:
  lr: {type: float, default: fast}
steps:
  - name: a
    comand: echo
    after: [c]
  - name: b
    command: echo ${{ parameters.rate }}
    after: [a, prepair]
  - name: c
    command: echo
    after: [b]
    timeout: soon
    when: b.accuracy >
  - name: prepare
    command: echo
    compute: small
"""

    assert problems_of(text) == [
        (3, "parameters.lr.default", "The default is not a number: 'fast'."),
        (5, "steps[0].command", "The key 'command' is missing."),
        (6, "steps[0].comand", "There is no key 'comand' here. Did you mean 'command'?"),
        (7, "steps[0].after", "These steps wait for each other: a -> b -> c -> a."),
        (9, "steps[1].command", "There is no parameter 'rate'."),
        (10, "steps[1].after[1]", "There is no step 'prepair'. Did you mean 'prepare'?"),
        (14, "steps[2].timeout", "'soon' is not a duration. Write it like 30s, 5m, 2h or 1d."),
        (15, "steps[2].when", "'b.accuracy >' ends too early."),
        (18, "steps[3].compute", "'small' is not a template; write resource.template, such as this-machine.small."),
    ]


def test_a_problem_names_the_step_that_it_is_about():
    text = "flow: X\nsteps:\n  - {name: a, command: c, comand: c}\n  - {command: c, after: [zzz]}\n"

    assert [(item.step, item.path) for item in checks.check(text, "yaml").problems] == [
        ("", "flow"),
        ("a", "steps[0].comand"),
        ("", "steps[1].name"),
        ("", "steps[1].after[0]"),
    ]


def test_what_is_right_in_a_wrong_step_is_checked_and_what_is_wrong_has_no_echo():
    text = """\
flow: x
parameters: {lr: {type: nonsense}}
steps:
  - name: Big
    command: echo ${{ parameters.lr }} ${{ parameters.rate }} ${{ parameters.rate }} ${{ parameters.mode }}
    parameters: {mode: {a: 1}, note: "${{ parameters.none }}"}
    env: {a b: "${{ parameters.lost }}", FINE: "${{ parameters.gone }}"}
  - name: late
    command: c
    after: Big
    when: Big.accuracy > 1
"""

    assert problems_of(text) == [
        (2, "parameters.lr.type", "'type' must be 'float', 'int', 'str' or 'bool'."),
        (
            4,
            "steps[0].name",
            "'Big' cannot name a step: use up to 63 lower-case letters, digits, '_' and '-', a letter first.",
        ),
        (5, "steps[0].command", "There is no parameter 'rate'."),
        (6, "steps[0].parameters.mode", "'mode' must be a number, a text, true or false."),
        (6, "steps[0].parameters.note", "There is no parameter 'none'."),
        (7, "steps[0].env.a b", "'a b' cannot name a variable: use letters, digits and '_', a letter first."),
        (7, "steps[0].env.FINE", "There is no parameter 'gone'."),
        (10, "steps[1].after", "'after' must be a list."),
    ]


def test_the_needs_of_a_broken_step_keep_their_places_and_leave_out_what_cannot_be_a_name():
    text = """\
flow: x
steps:
  - name: a
    compute: [{template: lab.big, wait: soon}, small, lab.small]
    data: [digits, {dataset: p/n, name: "/"}]
    secrets: [1, KEY]
  - name: b
    compute: {template: lab.one, weight: 1}
  - {}
"""

    first, second, third = checks.check(text, "yaml").needs

    assert first.templates == [
        (("steps", 0, "compute", 0), "lab.big"),
        (("steps", 0, "compute", 2), "lab.small"),
    ]
    assert first.datasets == [(("steps", 0, "data", 1, "dataset"), "p/n")]
    assert first.secrets == [(("steps", 0, "secrets", 1), "KEY")]
    assert second.templates == [(("steps", 1, "compute", 0), "lab.one")]
    assert (first.takes_default, third.takes_default) == (False, True)


def test_a_problem_inside_a_long_list_points_at_its_own_column():
    checked = checks.check("flow: x\nsteps: [{name: a, command: c, after: [zzz]}]\n", "yaml")

    assert [(item.line, item.column) for item in checked.problems] == [(2, 39)]


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ("[{name: a, command: c}, {name: a, command: c}]", "Two steps are called 'a'."),
        (
            "[{name: a_b, command: c}, {name: a-b, command: c}]",
            "'a-b' and 'a_b' would have the same variables; rename one of them.",
        ),
        ("[{name: a, command: c, after: [a]}]", "These steps wait for each other: a -> a."),
        ("[{name: a, command: c, grid: {C: []}}]", "'C' must not be empty."),
        ("[{name: a, command: c, grid: {C: [[1]]}}]", "This entry must be a number, a text, true or false."),
        ("[{name: a, command: c, grid: {C: {min: 2, max: 1, steps: 3}}}]", "'C': min must be less than max."),
        ("[{name: a, command: c, data: [digits]}]", "This entry must be a mapping such as {dataset: ...}."),
        ("[{name: a, command: c, retries: twice}]", "'retries' must be a mapping of keys to values."),
        (
            "[{name: a, command: c, data: [{dataset: digits}]}]",
            "'digits' is not a dataset; write project/dataset or project/dataset@branch.",
        ),
        (
            "[{name: a, command: c, data: [{dataset: p/n@a}, {dataset: q/n}]}]",
            "Two datasets would be read at the folder 'n'; give one of them another name.",
        ),
        (
            "[{name: a, command: c, grid: {C: [1, 2]}}, {name: b, command: c, after: [a], when: a.x > 1}]",
            "'a' is a grid of 2; write max(a.x) or min(a.x).",
        ),
        (
            "[{name: a, command: c}, {name: b, command: c, when: a.x > 1}]",
            "'a' is not a parent of 'b'; name it under `after`.",
        ),
        ("[{name: a, command: c, retries: -1}]", "'retries' cannot be negative."),
        ("[{name: Big, command: c}]", "'Big' cannot name a step: use up to 63 lower-case letters, digits, '_' and '-', a letter first."),
        ("[{name: a, command: '${{ secrets.x }}'}]", "'secrets.x' does not exist; there are parameters.NAME, run.id, run.number, step.name and step.index."),
        ("[{name: a, command: c, grid: {x: {min: 0, max: 1, steps: 200}, y: {min: 0, max: 1, steps: 200}}}]", "The grids multiply into 40000 tries; at most 10000 are allowed."),
        ("[]", "'steps' must not be empty."),
    ],
)  # fmt: skip
def test_each_mistake_is_told_in_a_sentence(steps, message):
    assert [item[2] for item in problems_of(f"flow: x\nsteps: {steps}\n")] == [message]


def test_a_key_written_twice_is_refused():
    assert problems_of("flow: a\nflow: b\nsteps: [{name: a, command: c}]\n") == [
        (2, "flow", "The key 'flow' is written twice in one place.")
    ]
    assert problems_of('{"flow": "a", "flow": "b", "steps": [{"name": "a", "command": "c"}]}', "json") == [
        (None, "flow", "The key 'flow' is written twice in one place.")
    ]


def test_a_bomb_of_aliases_is_refused_quickly():
    levels = "\n".join(f"k{n}: &k{n} [{', '.join([f'*k{n - 1}'] * 10)}]" for n in range(1, 12))

    (problem,) = checks.check(f"k0: &k0 [boom]\n{levels}\n", "yaml").problems

    assert problem.message == "The file has more than 200000 parts once its aliases are expanded."


@pytest.mark.parametrize("text", ["[" * 3000, "a: " + "{b: " * 300 + "}" * 300])
def test_endless_nesting_is_refused(text):
    (problem,) = checks.check(text, "yaml").problems

    assert problem.code == "unreadable"


def test_foreign_tags_are_refused():
    (problem,) = checks.check("flow: !!python/object/apply:os.system [ls]\n", "yaml").problems

    assert problem.code == "unreadable"


def test_broken_yaml_says_where():
    (problem,) = checks.check("flow: x\nsteps: [\n", "yaml").problems

    assert (problem.line, problem.code) == (3, "unreadable")


def test_text_that_is_no_mapping_is_told_so():
    assert problems_of("just words") == [(1, "", "A flow file is a mapping with `flow:` and `steps:`.")]


def test_the_published_schema_is_that_of_the_code():
    published = Path(__file__).parents[3] / "docs" / "reference" / "flow.schema.json"

    assert json.loads(published.read_text()) == spec.json_schema()


@pytest.mark.parametrize("version", ["true", "1.0", "'1'", "2"])
def test_the_version_of_the_schema_is_the_number_1(version):
    text = f"schema_version: {version}\nflow: one\nsteps:\n  - {{name: a, command: x}}\n"

    assert problems_of(text) == [(1, "schema_version", "'schema_version' must be 1.")]


def test_titles_and_images_are_of_one_line():
    text = 'flow: one\ntitle: "a\\nb"\nsteps:\n  - {name: a, title: "c\\td", image: "e\\rf", command: x}\n'

    why = "It holds a line break or another control character."
    assert problems_of(text) == [
        (2, "title", f"A title is one line. {why}"),
        (4, "steps[0].title", f"A title is one line. {why}"),
        (4, "steps[0].image", f"An image is a name. {why}"),
    ]


def test_a_title_that_would_be_cut_is_refused_with_its_line():
    text = f"flow: a\ntitle: {'t' * 201}\nsteps:\n  - name: b\n    title: {'u' * 300}\n    command: 'true'\n"

    assert problems_of(text) == [
        (2, "title", "A title has at most 200 characters; this one has 201."),
        (5, "steps[0].title", "A title has at most 200 characters; this one has 300."),
    ]


def test_parts_are_checked_as_those_of_a_job():
    text = """flow: a
steps:
  - name: b
    command: c
    completions: 4
    replicas: 2
  - name: d
    command: c
    parallelism: 3
  - name: e
    command: c
    completions: 2
    grid: {x: [1, 2]}
  - name: f
    command: c
    completions: 1001
  - name: g
    command: c
    after: [b]
    when: b.loss < 1
"""

    assert problems_of(text) == [
        (5, "steps[0].completions", "A step with completions has no replicas."),
        (
            9,
            "steps[1].parallelism",
            "Parallelism needs completions: how many parts are to succeed; or a grid, whose tries it limits.",
        ),
        (
            12,
            "steps[2].completions",
            "A grid runs once for each of its combinations: remove `completions`, or make an axis of the grid of it.",
        ),
        (16, "steps[3].completions", "'completions' must be at most 1000."),
        (20, "steps[4].when", "'b' has 4 parts; write max(b.loss) or min(b.loss)."),
    ]


def test_a_launcher_is_checked_with_its_step():
    text = """flow: a
steps:
  - name: b
    command: c
    completions: 4
    launcher: {}
  - name: d
    command: c
    launcher: {cpu: 0, gpus: 1}
"""

    assert [(line, path) for line, path, _ in problems_of(text)] == [
        (6, "steps[0].launcher"),
        (9, "steps[1].launcher.cpu"),
        (9, "steps[1].launcher.gpus"),
    ]


def test_idle_limits_and_ports_are_checked_as_those_of_a_job():
    text = "flow: a\nsteps:\n  - {name: b, command: c, idle_limit: 59}\n  - {name: d, command: c, ports: [80, 70000]}\n"

    assert problems_of(text) == [
        (3, "steps[0].idle_limit", "An idle limit has at least 60 seconds, and at most 100 years."),
        (4, "steps[1].ports[1]", "This entry must be at most 65535."),
    ]


def test_the_bounds_of_numbers_are_told_as_people_write_them():
    text = "flow: a\nsteps:\n  - {name: b, command: c, gpus: 1, cpu: 3e9}\n  - {name: d, command: c, cpu: 0.0001}\n"

    assert [message for _, _, message in problems_of(text)] == [
        "'cpu' must be at most 2147483646.",
        "'cpu' must be at least 0.001.",
    ]


def test_a_list_that_is_too_long_is_refused_in_words():
    text = f"flow: a\nsteps:\n  - {{name: b, command: c, pools: [{', '.join(f'p{n}' for n in range(101))}]}}\n"

    assert problems_of(text) == [(3, "steps[0].pools", "'pools' must have at most 100 entries.")]


def test_a_step_names_templates_or_a_size_that_makes_sense():
    text = """flow: a
steps:
  - {name: b, command: c, compute: lab.small, cpu: 2, pools: [fast]}
  - {name: d, command: c, gpus: 1.5}
  - {name: e, command: c, gpus: 0.0001}
  - {name: f, command: c, memory: 0}
  - {name: g, command: c, pools: [fast, fast]}
  - {name: h, command: c, resource: lab, pools: [fast, slow]}
  - {name: i, command: c, cpu: 0}
  - {name: j, command: c, gpus: 0.5, cpu: 0.5, memory: 2GiB, resource: lab, pools: [fast]}
"""

    assert [(line, path, words) for line, path, words in problems_of(text)] == [
        (
            3,
            "steps[0].cpu",
            "A template says the size and the resource already: name either `compute`, or `cpu`, `pools`.",
        ),
        (4, "steps[1].gpus", "More than one GPU must be whole ones."),
        (5, "steps[2].gpus", "A part of a GPU is 0.001 at least."),
        (6, "steps[3].memory", "A step needs some memory."),
        (7, "steps[4].pools", "A pool is named twice."),
        (8, "steps[5].pools", "A step that names its resource is in one pool of that: name one at most."),
        (9, "steps[6].cpu", "'cpu' must be at least 0.001."),
    ]
