"""The walk through TR-4858 that a reader runs, on a product that has just been started."""

import subprocess

from tests.journeys.product import ROOT

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
