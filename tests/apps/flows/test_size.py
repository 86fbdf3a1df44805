"""The engine's work is counted in statements, which the size of a fan must not multiply."""

from django.db import connection
from django.test.utils import CaptureQueriesContext

from compute.workers import launches, observe
from experiments.workers import artifacts
from flows.workers import advance
from scheduler.workers import cycle
from tests.factories.flows import World, state_of, states


def statements_of_a_fan(world: World, actor, project, size: int) -> int:
    text = (
        f"flow: fan{size}\nsteps: [{{name: root, command: c}},"
        f" {{name: work, command: c, after: [root], grid: {{n: {{type: integer, min: 0, max: {size}, steps: {size}}}}}}},"
        " {name: end, command: c, after: [work]}]"
    )
    run = world.start(actor, project, text)
    count = 0
    for _ in range(20):
        with CaptureQueriesContext(
            connection,
        ) as captured:
            advance.advance_all()
        count += len(captured)
        cycle.run_once()
        launches.start_placed_jobs()
        observe.observe_all()
        with CaptureQueriesContext(connection) as captured:
            advance.advance_all()
        count += len(captured)
        for name in world.running():
            world.driver_of(name).finish(name)
        observe.observe_all()
        artifacts.store_artifacts()
        if state_of(run) == "succeeded":
            break
    assert set(states(run).values()) == {"succeeded"}
    return count


def test_a_wider_fan_takes_no_more_statements(world: World, member, project):
    narrow = statements_of_a_fan(world, member, project, 20)
    wide = statements_of_a_fan(world, member, project, 200)

    # SQLite takes fewer rows in one INSERT than PostgreSQL does, so a few more of those are right.
    assert wide - narrow < 40
