"""Finding queries that reach through an app's border: `job__state` in flows, or `select_related("job")`.

No import shows them. A path may name a relation to another app and its key (`job`, `job__in`, `job__isnull`), and
nothing behind it: what is behind it is the other app's, which publishes it by its selectors.
"""

import ast
import re
from collections.abc import Collection, Iterator
from itertools import pairwise

_PATH = re.compile(r"-?[a-z][a-z0-9]*(?:_[a-z0-9]+)*(?:__[a-z0-9]+(?:_[a-z0-9]+)*)+")
_LOOKUPS = frozenset({"in", "isnull", "exact", "pk", "id", "lt", "lte", "gt", "gte"})
_FETCHES = frozenset({"select_related", "prefetch_related", "Prefetch"})


def find_crossings(source: str, relations: Collection[str]) -> list[str]:
    """Return the paths in a module that go behind one of these relations, in the order of their lines."""
    found = [*_paths(ast.parse(source), relations)]
    return [path for _, path in sorted(found)]


def _paths(tree: ast.AST, relations: Collection[str]) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg and _goes_behind(node.arg, relations):
            yield node.value.lineno, node.arg
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and _PATH.fullmatch(node.value):
            if _goes_behind(node.value.removeprefix("-"), relations):
                yield node.lineno, node.value
        elif isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in _FETCHES:
            for argument in node.args:
                if isinstance(argument, ast.Constant) and str(argument.value).rpartition("__")[2] in relations:
                    yield argument.lineno, str(argument.value)


def _goes_behind(path: str, relations: Collection[str]) -> bool:
    parts = path.split("__")
    return any(part in relations and behind not in _LOOKUPS for part, behind in pairwise(parts))
