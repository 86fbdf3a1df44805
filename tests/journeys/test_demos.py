"""The walks that a reader runs: TR-4858 by the paper's commands, and those of `nearline demo`."""

import json
import subprocess
from datetime import datetime

from tests.journeys.product import BIN, ROOT

OFF_S = 12
"""How far what is told may be off: ends are noticed and forecasts made once in some seconds, a busy machine needs more."""

LIMIT_S = 600
"""How long each state of a walk may take; a wrong one never comes about."""

WALK = ROOT / "examples" / "tr4858" / "walk.sh"


def walk(product) -> subprocess.CompletedProcess[str]:
    signed_in = {"NEARLINE_URL": product.url, "NEARLINE_TOKEN": product.token, "HOME": str(product.home)}
    environment = {**product.environment, **signed_in, "LIMIT_S": str(LIMIT_S)}
    return subprocess.run(
        [WALK], cwd=product.home, env=environment, capture_output=True, text=True, timeout=3600, check=False
    )


def test_every_state_of_the_paper_comes_about_with_a_second_pool_attached(own_product):
    done = walk(own_product)

    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert done.stdout.count("as in the paper\n") == 21
    assert done.stdout.splitlines()[-1] == "All states are as in the paper."
    again = walk(own_product)
    assert (again.returncode, "as in the paper" in again.stdout) == (5, False)


def demo(product, *arguments: str) -> subprocess.CompletedProcess[str]:
    signed_in = {"NEARLINE_URL": product.url, "NEARLINE_TOKEN": product.token, "HOME": str(product.home)}
    return subprocess.run(
        [BIN / "nearline", "demo", *arguments, "--limit", str(LIMIT_S)],
        env={**product.environment, **signed_in},
        capture_output=True,
        text=True,
        timeout=3600,
        check=False,
    )


def test_the_walk_is_told_to_a_newcomer_again_and_again(own_product):
    told = demo(own_product, "tr4858")

    assert told.returncode == 0, f"{told.stdout}\n{told.stderr}"
    assert told.stdout.count("nearline job submit train --name tr4858-") == 19
    assert "team a  4      8      ████▒▒▒▒  -" in told.stdout
    again = demo(own_product, "tr4858")
    assert (again.returncode, again.stderr.splitlines()[-1]) == (5, "hint: `nearline demo tr4858 --clean` ends that.")
    assert demo(own_product, "tr4858", "--clean").stderr == "✔ 16 jobs deleted.\n"
    scenes = json.loads(demo(own_product, "tr4858", "--json").stdout)["scenes"]
    assert [scene["held"] for scene in scenes] == [[4, 4, 4, 4], [4, 2, 2, 8], [8, 4, 4, 0]]


def test_why_a_job_waits_is_told_and_then_it_happens(own_product):
    done = demo(own_product, "wait", "--json")

    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    told = json.loads(done.stdout)
    assert "on wait-far.two it would start about" in told["text"]
    assert [moment["what"] for moment in told["moments"]] == [
        *(["Its data is there"] if "still move" in told["text"] else []),
        "The GPUs are free",
        "It starts",
        "It is done",
    ]
    for moment in told["moments"]:
        off = datetime.fromisoformat(moment["happened"]) - datetime.fromisoformat(moment["told"])
        assert abs(off.total_seconds()) < OFF_S, told
