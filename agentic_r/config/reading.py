"""Reading configurations: YAML and ``key=value`` strings in, checked sections or one clear line out."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError
from yaml.error import MarkedYAMLError

from agentic_r.config.evaluation import WorkspaceConfig
from agentic_r.config.giving import ExportConfig, ServeConfig
from agentic_r.config.roots import RetrieverConfig, RunConfig
from agentic_r.errors import ConfigError
from agentic_r.validation import describe_mistakes

__all__ = [
    "environment_key",
    "export_settings",
    "load_config",
    "load_retriever_config",
    "load_serve_config",
    "load_workspace",
]

_Root = TypeVar("_Root", bound=BaseModel)


def load_config(
    path: Path, overrides: tuple[str, ...] = (), *, environment: Mapping[str, str] | None = None
) -> RunConfig:
    """Read, override and check a configuration.

    Args:
        path: A YAML file.
        overrides: ``section.key=value`` strings; the value is read as YAML.
        environment: Where ``${NAME}`` and ``${NAME:-default}`` in paths are looked up; the process's own by default.

    Raises:
        ConfigError: naming the file, the key, what is wrong and what was expected.
    """
    return _load(RunConfig, path, overrides, environment)


def load_retriever_config(
    path: Path, overrides: tuple[str, ...] = (), *, environment: Mapping[str, str] | None = None
) -> RetrieverConfig:
    """Read, override and check the configuration of a retriever's training; as ``load_config``."""
    return _load(RetrieverConfig, path, overrides, environment)


def load_serve_config(overrides: tuple[str, ...] = ()) -> ServeConfig:
    """Return the server's defaults with ``key=value`` strings over them.

    Raises:
        ConfigError: naming the key, what is wrong and what was expected.
    """
    tree: dict[str, Any] = {}  # Any: as in load_config
    for override in overrides:
        _apply(tree, override)
    try:
        return ServeConfig.model_validate(_without_empty(tree))
    except ValidationError as error:
        given = {override.partition("=")[0]: override for override in overrides}
        raise ConfigError(describe_mistakes(error, ServeConfig, path="serve", overrides=given)) from None


def load_workspace(path: Path) -> WorkspaceConfig:
    """Read a preset: a YAML file of workspace settings alone, such as those in ``configs/workspace``.

    Raises:
        ConfigError: naming the file, the key, what is wrong and what was expected.
    """
    try:
        return WorkspaceConfig.model_validate(_without_empty(_read_tree(path)))
    except ValidationError as error:
        raise ConfigError(describe_mistakes(error, WorkspaceConfig, path=str(path), overrides={})) from None


def export_settings(onnx: str, dimensions: Sequence[int]) -> ExportConfig:
    """Return the section ``export`` as the command line gives it: ``fp32,int8`` or ``none``.

    Raises:
        ConfigError: no such graph or dimension.
    """
    names = [] if onnx.strip() in ("", "none") else [name.strip() for name in onnx.split(",")]
    try:
        return ExportConfig.model_validate({"onnx": names, "dimensions": list(dimensions)})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        option = "--onnx" if first["loc"][0] == "onnx" else "--dimension"
        raise ConfigError(f"{option} {first['input']}: {first['msg']}") from None


def environment_key(name: str) -> str:
    """Return the key that an environment variable holds; empty for no name.

    Raises:
        ConfigError: the variable is not set.
    """
    if name and not os.environ.get(name):
        raise ConfigError(f"--api-key-env {name}: not set; set it to the key, or leave the option out")
    return os.environ.get(name, "") if name else ""


def _load(kind: type[_Root], path: Path, overrides: tuple[str, ...], environment: Mapping[str, str] | None) -> _Root:
    tree = _read_tree(path)
    given = {override.partition("=")[0]: override for override in overrides}
    for override in overrides:
        _apply(tree, override)
    if kind is RetrieverConfig and "instances" not in tree and {"data", "agent"} <= tree.keys():
        raise ConfigError(f"{path}: is a whole run's; use it with agentic-r run")
    if kind is RunConfig and "instances" in tree and "data" not in tree:
        raise ConfigError(f"{path}: trains a retriever alone; use it with agentic-r train retriever")
    try:
        context = {"environment": os.environ if environment is None else environment}
        return kind.model_validate(_without_empty(tree), context=context)
    except ValidationError as error:
        raise ConfigError(describe_mistakes(error, kind, path=str(path), overrides=given)) from None


class _Loader(yaml.SafeLoader):
    """A key that stands twice in one section is an error: only the last would count."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # Any: as the base class
        keys = [key for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        for place, key in enumerate(keys):
            if any(key.value == earlier.value for earlier in keys[:place]):
                raise MarkedYAMLError(problem=f"{key.value} stands here a second time", problem_mark=key.start_mark)
        return super().construct_mapping(node, deep=deep)


def _read_tree(path: Path) -> dict[str, Any]:  # Any: a YAML tree, checked right after
    try:
        tree = yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file; give a configuration, such as configs/quickstart.yaml") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror}); give a YAML file that can") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 (byte {error.start + 1}: {error.reason}); save it as UTF-8") from None
    except RecursionError:
        raise ConfigError(f"{path}: nested too deeply; give sections of settings") from None
    except yaml.YAMLError as error:
        raise ConfigError(_yaml_mistake(str(path), error)) from None
    if not isinstance(tree, dict):
        found = "nothing" if tree is None else f"a {type(tree).__name__}"
        raise ConfigError(f"{path}: expected sections of settings, found {found}; see configs/quickstart.yaml")
    return tree


def _yaml_mistake(source: str, error: yaml.YAMLError) -> str:
    if isinstance(error, MarkedYAMLError) and error.problem_mark is not None:
        source, text = (
            f"{source}:{error.problem_mark.line + 1}",
            ", ".join(filter(None, (error.context, error.problem))),
        )
    else:
        text = str(error)
    return f"{source}: not readable as YAML ({' '.join(text.split())}); correct it"


def _without_empty(tree: dict[str, Any]) -> dict[str, Any]:  # Any: as above
    """Leave out keys without a value, such as a section whose lines are all commented out: their defaults hold."""
    kept = {key: value for key, value in tree.items() if value is not None}
    return {key: _without_empty(value) if isinstance(value, dict) else value for key, value in kept.items()}


def _apply(tree: dict[str, Any], override: str) -> None:  # Any: as above
    key, sign, value = override.partition("=")
    if not sign or not all(key.split(".")):
        raise ConfigError(f"--set {override}: expected section.key=value")
    if not value.strip():
        raise ConfigError(f"--set {override}: no value; write {key}=null to go back to the default")
    *parents, last = key.split(".")
    node = tree
    for parent in parents:
        if node.get(parent) is None:  # a section that is not there, or whose lines are all commented out
            node[parent] = {}
        node = node[parent]
        if not isinstance(node, dict):
            raise ConfigError(f"--set {override}: {parent} has no settings below it; see --dry-run for those there are")
    try:
        node[last] = yaml.load(value, Loader=_Loader)
    except RecursionError:
        raise ConfigError(f"--set {override[:80]}: nested too deeply; give a plain value") from None
    except yaml.YAMLError as error:
        raise ConfigError(_yaml_mistake(f"--set {override}", error).replace(":1:", ":", 1)) from None
