"""The rooms of the package: no import of a later one, torch only where it is needed, tests that mirror them."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import hgpo

PACKAGE = Path(hgpo.__file__).parent

# What needs more than numpy when it is imported; every other module does without.
NEEDS_TORCH = (
    "learn",
    "models.attention",
    "models.blueprint",
    "models.device",
    "models.fused",
    "models.load",
    "models.packed",
    "models.sharded",
    "models.tiny",
    "models.triton_kernels",
    "policies.hf",
    "runs.player",
    "runs.start",
    "runs.training",
    "trl.cpu",
    "trl.local",
    "verl.attention",
    "verl.cpu",
)
NEEDS_VERL = ("verl.buffer", "verl.loop", "verl.plugin", "verl.trainer")
NEEDS_RAPIDFUZZ = ("envs.webshop.env", "envs.webshop.generated", "envs.webshop.reward")


def rooms(description: str) -> list[list[str]]:
    """The rooms in order, as the package's docstring lists them; rooms of one line may use each other."""
    block = description.partition("The rooms of the package")[2].split("\n\n")[1]
    return [line.split() for line in block.splitlines() if line.strip()]


def imports(source: str, package: list[str]) -> Iterator[tuple[int, list[str]]]:
    """Every import below `hgpo` in a module of `package`, wherever it stands: line and dotted path.

    Names in strings count too when they are modules (`"hgpo.envs.household.env:HouseholdEnv"`), for that is how
    a registry imports.
    """
    for node in ast.walk(ast.parse(source)):
        targets: list[str] = []
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            base = [*base, *(node.module.split(".") if node.module else [])]
            targets = [".".join([*base, alias.name]) for alias in node.names]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            path = node.value.partition(":")[0]
            targets = [path] if path.startswith("hgpo.") and path.replace(".", "").isidentifier() else []
        for target in targets:
            if target.startswith("hgpo."):
                yield node.lineno, target.split(".")[1:]


def later_rooms(root: Path, order: list[list[str]], apart: dict[str, str]) -> list[str]:
    """What is wrong in the package at `root`: imports of later rooms, rooms nobody listed, rooms kept `apart`."""
    rank = {room: number for number, line in enumerate(order) for room in line}
    wrong = []
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        if len(parts) == 1 and parts[0] in ("__init__", "__main__"):
            continue
        room = parts[0]
        if room not in rank:
            wrong.append(f"{'/'.join(parts)}: the room {room!r} is not in the list")
            continue
        for line, target in imports(path.read_text(encoding="utf-8"), ["hgpo", *parts[:-1]]):
            if rank.get(target[0], -1) > rank[room]:
                wrong.append(f"{'/'.join(parts)}:{line} imports the later room {target[0]!r}")
            if target[0] == apart.get(room):
                wrong.append(f"{'/'.join(parts)}:{line} imports {target[0]!r}, which {room!r} must not know")
    return wrong


# Playing knows nothing of how advantages are estimated.
APART = {"envs": "estimators", "play": "estimators"}


def test_no_room_imports_a_later_one() -> None:
    order = rooms(hgpo.__doc__ or "")
    assert later_rooms(PACKAGE, order, APART) == []
    listed = {room for line in order for room in line}
    there = {
        path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    assert listed == there - {"__init__", "__main__"}


@pytest.mark.parametrize(
    ("where", "line"),
    [
        ("envs/world.py", "from ..play import memory"),
        ("envs/world.py", "from .. import play"),
        ("envs/house/world.py", "from ...play.memory import Memory"),
        ("envs/world.py", "import hgpo.play.memory"),
        ("envs/world.py", "from hgpo.play import memory"),
        ("envs/world.py", "def later():\n    from ..play import memory"),
        ("envs/world.py", "if TYPE_CHECKING:\n    from ..play import memory"),
        ("envs/world.py", "WHERE = 'hgpo.play.memory:Memory'"),
        ("envs/world.py", "from ..estimators import groups"),
        ("attic/world.py", "import math"),
    ],
)
def test_the_check_of_rooms_sees_every_kind_of_import(tmp_path: Path, where: str, line: str) -> None:
    file = tmp_path / where
    file.parent.mkdir(parents=True)
    order = [["errors"], ["steps"], ["estimators"], ["envs"], ["play"]]
    file.write_text("from ..errors import HgpoError\nfrom .. import steps\nGROUP = 'hgpo.envs'\n")
    assert len(later_rooms(tmp_path, order, APART)) == (where == "attic/world.py")
    file.write_text(line)
    assert len(later_rooms(tmp_path, order, APART)) == 1


_IMPORT_ALL = """
import importlib, json, pkgutil, sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top not in sys.stdlib_module_names and top not in ("numpy", sys.argv[1]):
            raise ModuleNotFoundError(f"No module named {top!r}", name=top)

sys.meta_path.insert(0, Refuse())
failed = {}
package = importlib.import_module(sys.argv[1])

def walk(path, prefix):
    for module in pkgutil.iter_modules(path, prefix):
        if module.name.endswith("__main__"):
            continue
        try:
            loaded = importlib.import_module(module.name)
        except Exception as error:
            failed[module.name.partition(".")[2]] = str(error)
        else:
            if module.ispkg:
                walk(loaded.__path__, module.name + ".")

walk(package.__path__, sys.argv[1] + ".")
json.dump(failed, sys.stdout)
"""


def without_extras(package: str, *, folder: Path) -> dict[str, str]:
    """Module -> complaint for every module of `package` that cannot be imported with numpy alone."""
    ran = subprocess.run(
        [sys.executable, "-c", _IMPORT_ALL, package], cwd=folder, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    failed: dict[str, str] = json.loads(ran.stdout)
    return failed


def below(module: str, names: tuple[str, ...]) -> bool:
    """Whether `module` is one of `names` or inside one of them."""
    return any(module == name or module.startswith(name + ".") for name in names)


def test_modules_that_need_no_torch_do_not_import_it() -> None:
    failed = without_extras("hgpo", folder=PACKAGE.parent)
    allowed = (*NEEDS_TORCH, *NEEDS_VERL, *NEEDS_RAPIDFUZZ)
    assert {module: why for module, why in failed.items() if not below(module, allowed)} == {}
    spared = [name for name in allowed if not any(below(module, (name,)) for module in failed)]
    assert spared == [], "these do without by now: take them off the list"


def test_the_check_for_torch_sees_direct_and_indirect_imports(tmp_path: Path) -> None:
    package = tmp_path / "attic"
    (package / "inner").mkdir(parents=True)
    for name, text in {
        "__init__": "import math",
        "plain": "import numpy",
        "direct": "import torch",
        "indirect": "from . import direct",
        "late": "def run():\n    import torch",
        "inner/__init__": "",
        "inner/deep": "from ..plain import numpy\nfrom transformers import AutoModel",
    }.items():
        (package / f"{name}.py").write_text(text)
    failed = without_extras("attic", folder=tmp_path)
    assert failed == {
        "direct": "No module named 'torch'",
        "indirect": "No module named 'torch'",
        "inner.deep": "No module named 'transformers'",
    }


@pytest.mark.parametrize(
    ("use", "loaded"), [("hgpo.HgpoError", ["hgpo"]), ("hgpo.estimate, hgpo.StepBatch", ["hgpo", "numpy"])]
)
def test_importing_the_package_loads_numpy_only_and_only_when_it_is_used(use: str, loaded: list[str]) -> None:
    program = (
        f"import json, sys; before = set(sys.modules); import hgpo; {use}; "
        "tops = {name.partition('.')[0] for name in set(sys.modules) - before}; "
        "json.dump(sorted(tops - set(sys.stdlib_module_names)), sys.stdout)"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert json.loads(ran.stdout) == loaded


TESTS = Path(__file__).parent
# Tests of the repository as a whole, and of its pages; all others stand in the folder of the room they test.
WHOLE = {
    "test_ci.py",
    "test_experiments.py",
    "test_fuzz.py",
    "test_notebook.py",
    "test_package.py",
    "test_rooms.py",
}
PAGES = Path("docs")


def test_tests_mirror_the_rooms() -> None:
    files = [path.relative_to(TESTS) for path in TESTS.rglob("test_*.py")]
    assert {path.name for path in files if path.parent == Path()} == WHOLE
    strays = [str(path) for path in files if path.parent != PAGES and not (PACKAGE / path.parent).is_dir()]
    assert strays == []
    packages = {path.parent for path in files}
    assert [str(folder) for folder in packages if not (TESTS / folder / "__init__.py").is_file()] == []
