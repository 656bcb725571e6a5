"""No file of ours imports itself through others, not even inside a function.

A circle of files has no bottom: no file of it can be read, tested or moved alone.  Imports for the
type checker (`if TYPE_CHECKING`) count too.  The import of a package's `__init__` before its
modules does not count.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("paimon_core", "paimon_spark", "maintenance", "plugins", "dags")


def module_name(file: Path) -> str:
    """The name that the file is imported by: from its topmost package down."""
    names = [] if file.name == "__init__.py" else [file.stem]
    folder = file.parent
    while (folder / "__init__.py").exists():
        names.insert(0, folder.name)
        folder = folder.parent
    return ".".join(names)


def modules_below(*folders: Path) -> dict[str, Path]:
    return {module_name(file): file for folder in folders for file in sorted(folder.rglob("*.py"))}


def imported_names(node: ast.AST) -> Iterator[str]:
    """Every dotted name that this code imports."""
    match node:
        case ast.Import():
            yield from (alias.name for alias in node.names)
        case ast.ImportFrom(module=str(module), level=0):
            yield from (f"{module}.{alias.name}" for alias in node.names)
        case ast.Call(
            func=ast.Name(id=name) | ast.Attribute(attr=name), args=[ast.Constant(v), *_]
        ):
            if name == "import_module" and isinstance(v, str):
                yield v
        case _:
            pass
    for child in ast.iter_child_nodes(node):
        yield from imported_names(child)


def import_graph(modules: Mapping[str, Path]) -> dict[str, set[str]]:
    """For each module, those of the modules that it imports."""
    graph: dict[str, set[str]] = {}
    for name, file in modules.items():
        found = set()
        for imported in imported_names(ast.parse(file.read_text(encoding="utf-8"))):
            # `from a.b import c` imports the module a.b.c, or takes a name of the module a.b.
            module = imported if imported in modules else imported.rpartition(".")[0]
            found.add(module)
        graph[name] = (found & modules.keys()) - {name}
    return graph


def circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """The groups of modules that import each other: what is left when all others are taken away.

    Modules that import nothing, or that nothing imports, are in no circle.
    """
    left = {name: set(imports) for name, imports in graph.items()}
    while True:
        imported = set().union(*left.values()) if left else set()
        outside = {name for name, imports in left.items() if not imports or name not in imported}
        if not outside:
            break
        left = {n: i - outside for n, i in left.items() if n not in outside}
    found = []
    while left:
        start = min(left)
        together = {n for n in reachable(left, start) if start in reachable(left, n)}
        if together:
            found.append(sorted(together))
        gone = together or {start}
        left = {n: i - gone for n, i in left.items() if n not in gone}
    return found


def reachable(graph: Mapping[str, set[str]], start: str) -> set[str]:
    seen: set[str] = set()
    todo = list(graph[start])
    while todo:
        name = todo.pop()
        if name not in seen:
            seen.add(name)
            todo += graph[name]
    return seen


def test_no_circle_of_files():
    modules = modules_below(*(ROOT / folder for folder in FOLDERS))
    assert len(modules) > 400
    graph = import_graph(modules)
    assert sum(map(len, graph.values())) > 2000
    assert circles(graph) == []


def test_circles_are_found_inside_functions_and_for_the_type_checker(tmp_path):
    package = tmp_path / "pack"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "a.py").write_text("from pack.b import x\n")
    (package / "b.py").write_text("def f():\n    from pack import c\n    return c\n")
    (package / "c.py").write_text("from importlib import import_module\nimport_module('pack.a')\n")
    (package / "d.py").write_text(
        "import pack.a\nfrom typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import pack.e\n"
    )
    (package / "e.py").write_text("import pack.d\n")
    found = circles(import_graph(modules_below(package)))
    assert found == [["pack.a", "pack.b", "pack.c"], ["pack.d", "pack.e"]]
