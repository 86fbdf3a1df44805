from flows.engine import checks
from flows.engine.spec import GridRange

FLOW = """\
flow: Train X-Rays
recurring: "0 0 * * 1 Asia/Jerusalem"
tasks:
  - title: X-Rays
    type: data
    dataset: chest-xray
    commit: 4f0c8d21
    top: 10
    left: 20
  - title: Train ResNet50
    type: exec
    input: python3 resnet50.py
    image: tensorflow/tensorflow:2.3.0
    computes: [lab.gpu-1, this-machine.medium]
    params:
      - {key: batch_size, type: discrete, values: [128]}
      - {key: epochs, type: discrete, values: [10, 20]}
      - {key: dropout, type: float, min: 0.1, max: 0.5, scale: linear, steps: 2}
  - title: Report
    type: exec
    input: python3 report.py
    conditions:
      - {task: Train ResNet50, tag_key: accuracy, objective: max, value: 0.9}
relations:
  - {from: X-Rays, to: Train ResNet50}
  - {from: Train ResNet50, to: Report}
"""


def test_a_flow_file_of_cnvrg_is_read_as_ours():
    checked = checks.check(FLOW, "yaml", project="team-a")

    assert checked.problems == ()
    assert checked.spec is not None
    assert (checked.spec.flow, checked.spec.title) == ("train-x-rays", "Train X-Rays")
    train, report = checked.spec.steps
    assert (train.name, train.title, train.command) == ("train-resnet50", "Train ResNet50", "python3 resnet50.py")
    assert train.append_parameters is True
    assert train.parameters == {"batch_size": 128}
    assert train.grid == {"epochs": (10, 20), "dropout": GridRange(min=0.1, max=0.5, steps=2)}
    assert [choice.template for choice in train.compute] == ["lab.gpu-1", "this-machine.medium"]
    assert [(item.dataset, item.folder, item.cached) for item in train.data] == [
        ("team-a/chest-xray@4f0c8d21", "chest-xray", True)
    ]
    assert report.after == ("train-resnet50",)
    assert report.when == "max(train-resnet50.accuracy) >= 0.9"


def test_a_schedule_is_accepted_with_a_note():
    assert [(note.line, note.message) for note in checks.check(FLOW, "yaml", project="team-a").notes] == [
        (2, "Schedules come later; this flow runs when somebody starts it.")
    ]


def test_a_deploy_task_is_refused_with_a_sentence():
    text = FLOW.replace("title: Report\n    type: exec", "title: Report\n    type: deploy")

    messages = [(item.line, item.message) for item in checks.check(text, "yaml", project="team-a").problems]

    assert messages == [(20, "Endpoints are not part of Nearline; remove the deploy task from the flow.")]


def test_problems_keep_the_lines_of_the_original():
    text = FLOW.replace("computes: [lab.gpu-1", "computes: [gpu").replace("to: Report", "to: Raport")

    assert [(item.line, item.path, item.message) for item in checks.check(text, "yaml", project="team-a").problems] == [
        (14, "tasks[1].computes", "'gpu' is not a template; write resource.template, such as this-machine.small."),
        (
            22,
            "tasks[2].conditions",
            "'train-resnet50' is not a parent of 'report'; name it under `after`.",
        ),
        (26, "relations[1].to", "There is no task 'Raport'. Did you mean 'Report'?"),
    ]


def test_problems_name_the_step_that_a_task_becomes():
    text = FLOW.replace("computes: [lab.gpu-1", "computes: [gpu").replace("input: python3 report.py", "inptu: report")

    problems = checks.check(text, "yaml", project="team-a").problems

    assert {(item.path, item.step) for item in problems} == {
        ("tasks[1].computes", "train-resnet50"),
        ("tasks[2]", "report"),
        ("tasks[2].inptu", "report"),
    }


def test_unknown_keys_are_told_with_what_was_meant():
    text = FLOW.replace("input: python3 report.py", "inptu: python3 report.py")

    messages = [item.message for item in checks.check(text, "yaml", project="team-a").problems]

    assert "There is no key 'inptu' here. Did you mean 'input'?" in messages
