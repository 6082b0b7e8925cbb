"""What is wrong with a tree of settings, in the user's words: where, what, and what to do, on one line.

Owns the wording of what pydantic finds, and the keys that a mistyped one may have meant. Which settings there are is
``config``'s.
"""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

__all__ = ["describe_mistakes"]

_MAX_SHOWN = 80  # characters of a wrong value


def describe_mistakes(error: ValidationError, root: type[BaseModel], *, path: str, overrides: Mapping[str, str]) -> str:
    """Return all mistakes in one line.

    Args:
        error: What pydantic found.
        root: The class of the whole tree.
        path: The file that the tree was read from.
        overrides: Keys that the command line set, with the text of the override; their mistakes are not the file's.
    """
    by_source: dict[str, list[str]] = {}
    for item in error.errors(include_url=False):
        found = _find(item["loc"], root)
        place = ".".join(found.steps)
        key = next((key for key in overrides if _lies_within(place, key) or _lies_within(key, place)), None)
        source = path if key is None else f"--set {overrides[key]}"
        by_source.setdefault(source, []).append(_describe(item, place, found.models).removeprefix(f"{key}: "))
    return "; ".join(f"{source}: {'; '.join(lines)}" for source, lines in by_source.items())


def _lies_within(place: str, key: str) -> bool:
    return f"{place}.".startswith(f"{key}.")


@dataclass(frozen=True, slots=True)
class _Place:
    """The keys that lead to a value, and the sections that the last of them may be in."""

    steps: tuple[str, ...]
    models: tuple[type[BaseModel], ...]


def _find(location: Sequence[int | str], root: type[BaseModel]) -> _Place:
    """Follow a location of pydantic's; it also names the kind of a section, which is no key."""
    steps: list[str] = []
    models: tuple[type[BaseModel], ...] = (root,)
    inside = models
    for step in location:
        of_kind = tuple(model for model in inside if _kind(model) == step)
        if of_kind:
            inside = of_kind
            continue
        models = inside
        fields = [model.model_fields[step] for model in models if step in model.model_fields]
        inside = tuple(section for field in fields for section in _sections(field.annotation))
        steps.append(str(step))
    return _Place(tuple(steps), models)


def _kind(model: type[BaseModel]) -> object:
    field = model.model_fields.get("kind")
    return next(iter(get_args(field.annotation)), None) if field is not None else None


def _sections(annotation: object) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [section for part in get_args(annotation) for section in _sections(part)]


def _describe(item: ErrorDetails, place: str, models: Sequence[type[BaseModel]]) -> str:
    shown = repr(item["input"])
    got = f" (got {shown if len(shown) <= _MAX_SHOWN else shown[:_MAX_SHOWN] + '...'})"
    context = item.get("ctx", {})
    match item["type"]:
        case "extra_forbidden":
            return f"{place}: no such setting; {_suggestion(place.rpartition('.')[2], models)}"
        case "missing":
            return f"{place}: is missing; give it a value"
        case "union_tag_invalid":
            return f"{place}.kind: expected one of {context['expected_tags']} (got {context['tag']!r})"
        case "union_tag_not_found":
            return f"{place}.kind: is missing; give the kind of {place}, and its settings below it"
        case "model_type" | "model_attributes_type":
            return f"{place}: expected a section with settings below it{got}"
        case "value_error":
            text = item["msg"].removeprefix("Value error, ")
            return f"{place}: {text}{got}" if place and not isinstance(item["input"], dict) else text
        case "string_type" if isinstance(item["input"], int | float):
            return f"{place}: expected text{got}; put it in quotes"
        case "tuple_type":
            return f"{place}: expected a list, such as [a, b]{got}"
        case "greater_than" | "greater_than_equal" | "less_than" | "less_than_equal":
            return f"{place}: {item['msg'].replace('Input should be', 'expected a number')}{got}"
        case _:
            return f"{place or 'configuration'}: {item['msg'].replace('Input should be', 'expected')}{got}"


def _suggestion(key: str, models: Sequence[type[BaseModel]]) -> str:
    names = list(dict.fromkeys(name for model in models for name in model.model_fields))
    close = difflib.get_close_matches(key, names, n=1)
    if close:
        return f"did you mean {close[0]}?"
    return f"expected one of {', '.join(names)}"
