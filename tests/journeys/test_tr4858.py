"""The walks through TR-4858 that a reader runs: that of the paper's commands, and the one that is told."""

import json
import subprocess

from tests.journeys.product import BIN, ROOT

WALK = ROOT / "examples" / "tr4858" / "walk.sh"


def walk(product) -> subprocess.CompletedProcess[str]:
    signed_in = {"NEARLINE_URL": product.url, "NEARLINE_TOKEN": product.token, "HOME": str(product.home)}
    environment = {**product.environment, **signed_in, "LIMIT_S": "60"}
    return subprocess.run(
        [WALK], cwd=product.home, env=environment, capture_output=True, text=True, timeout=600, check=False
    )


def test_every_state_of_the_paper_comes_about_with_a_second_pool_attached(own_product):
    done = walk(own_product)

    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert done.stdout.count("as in the paper\n") == 21
    assert done.stdout.splitlines()[-1] == "All states are as in the paper."
    again = walk(own_product)
    assert (again.returncode, "as in the paper" in again.stdout) == (5, False)


def demo(product, *options: str) -> subprocess.CompletedProcess[str]:
    signed_in = {"NEARLINE_URL": product.url, "NEARLINE_TOKEN": product.token, "HOME": str(product.home)}
    return subprocess.run(
        [BIN / "nearline", "demo", "tr4858", *options],
        env={**product.environment, **signed_in},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def test_the_walk_is_told_to_a_newcomer_again_and_again(own_product):
    told = demo(own_product)

    assert told.returncode == 0, f"{told.stdout}\n{told.stderr}"
    assert told.stdout.count("nearline job submit train --name tr4858-") == 19
    assert "team a  4      8      ████▒▒▒▒  -" in told.stdout
    again = demo(own_product)
    assert (again.returncode, again.stderr.splitlines()[-1]) == (5, "hint: `nearline demo tr4858 --clean` ends that.")
    assert demo(own_product, "--clean").stderr == "✔ 16 jobs deleted.\n"
    scenes = json.loads(demo(own_product, "--json").stdout)["scenes"]
    assert [scene["held"] for scene in scenes] == [[4, 4, 4, 4], [4, 2, 2, 8], [8, 4, 4, 0]]
