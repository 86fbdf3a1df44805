"""Every example in the documentation is run, as a reader would, against a running product."""

import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from docs import generate
from experiments.engine import filters
from tests.docs.blocks import Block, read_blocks
from tests.docs.scripts import is_like, run_page
from tests.journeys.product import ROOT, Product

# Written from the code, and held against it by tests/architecture/test_reference.py.
GENERATED = {generate.REFERENCE / name for name in generate.FILES}
WITHOUT_A_RUN = {
    "README.md": 3,
    "CONTRIBUTING.md": 1,
    "client/README.md": 1,
    "docs/guides/admin.md": 18,
    "docs/guides/data-scientist.md": 5,
}


def list_pages() -> list[str]:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return [name for name in names if ROOT / name not in GENERATED and read_blocks(ROOT / name)]


def environment_of(product: Product, folder: Path, **more: str) -> dict[str, str]:
    return product.environment | {"HOME": str(folder)} | more


def blocks_for(page: str, product: Product) -> list[Block]:
    """Return the blocks of a page, with the address of the product where the page has an example of one."""
    addresses = ("http://127.0.0.1:8000", "https://nearline.example.org")
    blocks = read_blocks(ROOT / page)
    for address in addresses:
        blocks = [Block(**vars(block) | {"text": block.text.replace(address, product.url)}) for block in blocks]
    return blocks


def test_the_tour_of_the_readme_prints_what_it_shows(checkout):
    folder, product = checkout

    faults = run_page(blocks_for("README.md", product), folder, environment_of(product, folder))

    assert not faults, "\n\n".join(faults)


def test_the_link_to_sign_in_is_the_last_that_make_up_prints(checkout):
    _, product = checkout
    *_, before, last = product.log_of("up").splitlines()

    assert before.endswith("Sign in once within 30 minutes:")
    assert last.startswith(f"{product.url}/sign-in/")


@pytest.mark.parametrize("page", [name for name in list_pages() if name != "README.md"])
def test_every_example_of_a_page_works(page, product, desk):
    environment = environment_of(product, desk, NEARLINE_URL=product.url, NEARLINE_TOKEN=product.token)

    faults = run_page(blocks_for(page, product), desk, environment)

    assert not faults, "\n\n".join(faults)


def test_every_filter_in_the_table_of_the_guide_is_one():
    page = (ROOT / "docs/guides/data-scientist.md").read_text()
    rows = page.partition("| write | to find |\n| --- | --- |\n")[2].partition("\n\n")[0].splitlines()
    written = [text for row in rows for text in re.findall("`([^`]+)`", row.split(" | ")[0])]

    assert len(written) > 10
    for text in written:
        filters.parse(text)


def test_what_is_not_run_says_why_and_is_counted():
    marked = [(page, block) for page in list_pages() for block in read_blocks(ROOT / page) if block.mark == "not run"]

    assert all(block.value for _, block in marked)
    assert Counter(page for page, _ in marked) == WITHOUT_A_RUN


def test_a_command_that_fails_or_prints_something_else_is_a_fault(tmp_path):
    blocks = [
        Block(1, "sh", "$ echo fine\nfine\n$ echo 12345678 changed\n87654321 changed\n$ echo left\nright\n"),
        Block(9, "sh", "cd /\nfalse   # a comment\n"),
        Block(12, "python", "print('yes')  # yes\nprint('no')  # maybe\n"),
    ]

    faults = run_page(blocks, tmp_path, {"PATH": "/usr/bin:/bin"})

    assert [fault.split(":")[0] for fault in faults] == ["line 5", "line 10", "line 12"]


@pytest.mark.parametrize(
    ("output", "shown", "expected"),
    [
        ("a\nb\nc", "a\n...\nc", True),
        ("a\nc", "a\nb", False),
        ("exp_01m7yqa3xwfhvah6trk0  x  5 s ago", "exp_01m7yqa2zhmxnhff9dxw x just now", True),
        ("exp_01m7yqa3xwfhvah6trk0  x  3 min ago", "exp_01m7yqa2zhmxnhff9dxw x just now", True),
        ("Hydrating 12 of 40 files, 3.2 MB, 6 s left\nPath: /x", "Path: /x", True),
        ("Queued: waits for demo/digits, 0 of 40 files\nReady 40 of 40 files\nPath: /x", "Path: /x", True),
        ("/tmp/x/.nearline/cache", ".../.nearline/cache", True),
        ("1.4 kB", "1.5 kB", False),
    ],
)
def test_an_output_is_compared_but_for_what_changes_each_time(output, shown, expected):
    assert is_like(output, shown) is expected


def test_blocks_are_found_with_their_lines_and_marks(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "text\n\n    $ a\n\n    b\n\n- item\n\n    more of it\n\ntext\n\n<!-- not run: why -->\n```python\nx\n```\n"
    )

    assert read_blocks(page) == [Block(3, "sh", "$ a\n\nb\n"), Block(14, "python", "x\n", "not run", "why")]
