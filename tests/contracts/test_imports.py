"""Imports point inwards only: the rings of the design, from the inside out."""

import ast
from pathlib import Path

import pytest

import suffice

RINGS = [
    {"errors"},
    {"requiring"},
    {"storage", "progress", "randomness", "convergence", "compiling"},
    {"checkpoint"},
    {"charts"},
    {"model"},
    {"simulation"},
    {"posterior"},
    {"grid"},
    {"zoo"},
    {"family"},
    {"matching"},
    {"fitting"},
    {"sampling", "abc", "surrogates"},
    {"diagnostics"},
    {"compare"},
    {"plot"},
    {"report"},
    {"experiments"},
    {"cli", "__init__"},
]
RING_OF = {name: ring for ring, names in enumerate(RINGS) for name in names}
ROOT = Path(suffice.__file__).parent
MODULES = sorted(ROOT.rglob("*.py"))


def unit(path: Path) -> str:
    """The part of the house a file belongs to: a package or a top-level module."""
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported_units(path: Path) -> set[str]:
    """The units a file imports from, at the top of the file or inside a function."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module == "suffice":
            names = [f"suffice.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import: write it out."
            names = [node.module or ""]
        else:
            continue
        found |= {
            name.split(".")[1] if "." in name else "__init__" for name in names if name.split(".")[0] == "suffice"
        }
    return found


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_inwards(path: Path) -> None:
    own = unit(path)
    for other in imported_units(path) - {own}:
        assert RING_OF[other] < RING_OF[own], f"{own} imports {other}, which is not further inside."


def test_every_unit_has_a_ring() -> None:
    assert {unit(path) for path in MODULES} <= set(RING_OF)
    assert len(MODULES) > 15
