"""Finding loops over rows that do work for each of them without `core.isolation`, by reading the code.

A loop is one over rows when what it goes over comes from a query: `.objects` is in it, in what its names were assigned
from, or in what a function returns that it calls. It does work when it calls a service, a worker, an adapter, or a
method of something whose type is not known here. Loops that only assemble what one transaction writes do not.
"""

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

MECHANISM = frozenset({"for_each", "in_batch"})
_HARMLESS_METHODS = frozenset(
    {"append", "extend", "add", "update", "setdefault", "get", "items", "values", "keys", "pop", "discard", "index",
     "startswith", "endswith", "strip", "split", "partition", "join", "format", "encode", "decode", "isoformat", "inc",
     "labels", "info", "warning", "total_seconds", "filter", "exclude", "order_by", "values_list", "select_related",
     "only", "defer", "first", "exists", "count", "timestamp", "removeprefix", "sort", "copy"}
)  # fmt: skip
_LAYERS_OF_WORK = (".services.", ".workers.", ".adapters.")


@dataclass(frozen=True)
class Function:
    """A function or method of a module, with everything inside it."""

    module: str
    name: str
    node: ast.FunctionDef

    def __str__(self) -> str:
        return f"{self.module}:{self.name}"


@dataclass
class Module:
    """A module's functions, and what its names stand for: a module or `module:name`."""

    name: str
    functions: dict[str, Function] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)


def read_module(name: str, source: str) -> Module:
    """Parse one module."""
    module = Module(name)
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom | ast.Import):
            package = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
            module.names |= {alias.asname or alias.name: package + alias.name for alias in node.names}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            module.functions[node.name] = Function(name, node.name, node)
        elif isinstance(node, ast.ClassDef):
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef):
                    module.functions[f"{node.name}.{inner.name}"] = Function(name, f"{node.name}.{inner.name}", inner)
    return module


class Code:
    """All modules that are looked at."""

    def __init__(self, modules: Iterable[Module]) -> None:
        self._modules = {module.name: module for module in modules}
        self._fetching = self._find_fetching()

    def tasks(self) -> list[Function]:
        """Return the functions that are registered as background tasks."""
        return [
            function
            for module in self._modules.values()
            for function in module.functions.values()
            if any(
                isinstance(mark, ast.Call) and ast.unparse(mark.func).split(".")[-1] == "task"
                for mark in function.node.decorator_list
            )
        ]

    def function(self, name: str) -> Function:
        """Return a function by `module:name`."""
        module, _, own = name.partition(":")
        return self._modules[module].functions[own]

    def reachable(self, roots: Iterable[Function]) -> set[Function]:
        """Return these functions and all that they name, directly or not."""
        found: set[Function] = set()
        waiting = list(roots)
        while waiting:
            function = waiting.pop()
            if function not in found:
                found.add(function)
                waiting += self._named_by(function)
        return found

    def uses_mechanism(self, root: Function) -> bool:
        """Whether a task does its work through the mechanism, somewhere below it."""
        return any(
            isinstance(node, ast.Call) and _is_mechanism(node)
            for function in self.reachable([root])
            for node in ast.walk(function.node)
        )

    def unguarded_loops(self, functions: Iterable[Function]) -> list[str]:
        """Return `module:function` of each loop over rows that does work for each of them."""
        return sorted({str(function) for function in functions if any(self._unguarded(function))})

    def _unguarded(self, function: Function) -> Iterator[ast.AST]:
        rows = self._row_names(function)
        for node in ast.walk(function.node):
            if isinstance(node, ast.For) and self._is_rows(function, node.iter, rows):
                if any(self._is_work(function, call) for part in node.body for call in _calls(part)):
                    yield node
            elif isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp):
                parts = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
                parts += [test for generator in node.generators for test in generator.ifs]
                if any(self._is_rows(function, generator.iter, rows) for generator in node.generators) and any(
                    self._is_service(function, call) for part in parts for call in _calls(part)
                ):
                    yield node

    def _row_names(self, function: Function) -> set[str]:
        """Return the local names that hold rows, or something made of them."""
        names: set[str] = set()
        for _ in range(3):  # a name may be assigned from one that is assigned further below, in a loop
            for node in ast.walk(function.node):
                if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign) and node.value is not None:
                    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                    if self._is_rows(function, node.value, names):
                        names |= {
                            part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)
                        }
                elif isinstance(node, ast.For) and self._is_rows(function, node.iter, names):
                    names |= {part.id for part in ast.walk(node.target) if isinstance(part, ast.Name)}
        return names

    def _is_rows(self, function: Function, expression: ast.AST, names: set[str]) -> bool:
        for node in ast.walk(expression):
            if isinstance(node, ast.Attribute) and node.attr == "objects":
                return True
            if isinstance(node, ast.Name) and node.id in names:
                return True
            if isinstance(node, ast.Call) and (called := self._resolve(function, node.func)) in self._fetching:
                return called is not None
        return False

    def _find_fetching(self) -> set[Function]:
        """Return the functions that return rows."""
        self._fetching: set[Function] = set()
        functions = [function for module in self._modules.values() for function in module.functions.values()]
        while True:
            new = {
                function
                for function in functions
                if function not in self._fetching
                for names in [self._row_names(function)]
                for node in ast.walk(function.node)
                if isinstance(node, ast.Return | ast.Yield) and node.value is not None
                if self._is_rows(function, node.value, names)
            }
            if not new:
                return self._fetching
            self._fetching |= new

    def _is_work(self, function: Function, call: ast.Call) -> bool:
        if self._is_service(function, call):
            return True
        if not isinstance(call.func, ast.Attribute) or call.func.attr in _HARMLESS_METHODS:
            return False
        owner = call.func.value
        is_module = isinstance(owner, ast.Name) and owner.id in self._modules[function.module].names
        return not is_module and isinstance(owner, ast.Name | ast.Call) and not _is_query(call)

    def _is_service(self, function: Function, call: ast.Call) -> bool:
        if _is_mechanism(call):
            return False
        if self._resolve(function, call.func) is not None:
            return True
        target = self._full_name(function, call.func)
        return any(layer in target for layer in _LAYERS_OF_WORK) and target.split(".")[-1][:1].islower()

    def _named_by(self, function: Function) -> list[Function]:
        nodes = ast.walk(function.node)
        found = [self._resolve(function, node) for node in nodes if isinstance(node, ast.Name | ast.Attribute)]
        classes = {node.id for node in ast.walk(function.node) if isinstance(node, ast.Name)}
        methods = [
            other
            for other in self._modules[function.module].functions.values()
            if "." in other.name and other.name.split(".")[0] in classes
        ]
        return [other for other in found if other is not None and other != function] + methods

    def _resolve(self, function: Function, expression: ast.expr) -> Function | None:
        """Return the service function that an expression names; selectors and engines only assemble."""
        own = self._modules[function.module].functions
        if isinstance(expression, ast.Name) and expression.id in own:
            return own[expression.id]
        if (
            isinstance(expression, ast.Attribute)
            and isinstance(expression.value, ast.Name)
            and expression.value.id == "self"
        ):
            return own.get(f"{function.name.split('.')[0]}.{expression.attr}")
        module, _, name = self._full_name(function, expression).rpartition(".")
        return self._modules[module].functions.get(name) if module in self._modules else None

    def _full_name(self, function: Function, expression: ast.expr) -> str:
        first, dot, rest = ast.unparse(expression).partition(".")
        return self._modules[function.module].names.get(first, first) + dot + rest


def _is_mechanism(call: ast.Call) -> bool:
    return ast.unparse(call.func).split(".")[-1] in MECHANISM


def _is_query(call: ast.Call) -> bool:
    return any(isinstance(node, ast.Attribute) and node.attr == "objects" for node in ast.walk(call.func))


def _calls(node: ast.AST) -> Iterator[ast.Call]:
    return (inner for inner in ast.walk(node) if isinstance(inner, ast.Call))


def read_code(sources: Mapping[str, str]) -> Code:
    """Parse modules by name."""
    return Code([read_module(name, source) for name, source in sources.items()])
