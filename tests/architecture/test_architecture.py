"""What holds for the repository as a whole."""

import ast
import importlib
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import agentic_r
from agentic_r.config import load_config, load_retriever_config, load_workspace

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("torch", "transformers", "sentence_transformers", "trl", "datasets", "faiss")
MODULES = sorted(item.name for item in pkgutil.walk_packages(agentic_r.__path__, "agentic_r."))


def _tracked() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.split("\0")
    if listed == [""]:
        pytest.skip("not a git checkout")
    return [ROOT / name for name in listed if name and (ROOT / name).exists()]


@pytest.mark.parametrize(
    "module", ["agentic_r.types", "agentic_r.config", "agentic_r.cli", "agentic_r.check", "agentic_r.loop.preview"]
)
def test_light_modules_import_nothing_heavy(module: str) -> None:
    code = f"import sys, {module}; print(sorted(set({HEAVY!r}) & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT).stdout
    assert found.strip() == "[]"


# A launcher's own files are not ours to read.
CONFIGURATIONS = [path for path in sorted((ROOT / "configs").rglob("*.yaml")) if path.parent.name != "launch"]


@pytest.mark.parametrize("path", CONFIGURATIONS, ids=lambda path: path.name)
def test_every_shipped_configuration_is_accepted(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in set(re.findall(r"\$\{(\w+)", path.read_text(encoding="utf-8"))):
        monkeypatch.setenv(name, "somewhere")
    if path.parent.name == "workspace":  # presets of one section
        assert load_workspace(path).systems
    elif "\ninstances:" in path.read_text(encoding="utf-8"):
        assert load_retriever_config(path).name
    else:
        assert load_config(path).name


@pytest.mark.parametrize("module", MODULES)
def test_public_names_exist_and_are_sorted(module: str) -> None:
    loaded = importlib.import_module(module)
    names = getattr(loaded, "__all__", [])
    assert list(names) == sorted(names, key=lambda name: (not name.isupper(), name.islower(), name)) or list(
        names
    ) == sorted(names)
    assert all(hasattr(loaded, name) for name in names)


def test_no_large_file_notebook_or_bytecode_is_tracked() -> None:
    shipped_model = ROOT / "data" / "tiny"
    for path in _tracked():
        limit = 3_000_000 if shipped_model in path.parents else 500_000
        assert path.stat().st_size <= limit, path
        assert path.suffix not in (".ipynb", ".pyc"), path


def test_the_package_needs_nothing_from_the_scripts_around_it() -> None:
    for path in (ROOT / "agentic_r").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [item.name for item in node.names] if isinstance(node, ast.Import) else []
            assert not {name.split(".")[0] for name in names} & {"train", "data", "benchmarks", "tests"}, path


def test_readme_lists_the_folders_that_there_are() -> None:
    tree = (ROOT / "README.md").read_text(encoding="utf-8")
    for folder in sorted(
        path for path in (ROOT / "agentic_r").iterdir() if path.is_dir() and path.name != "__pycache__"
    ):
        assert f"{folder.name}/" in tree, folder.name
