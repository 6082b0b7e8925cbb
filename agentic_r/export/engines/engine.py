"""What every engine's export has in common: the facts it is generated from, the seam, and how numbers are written.

The engines stand beside this file, one each; how parts are streamed and resumed is ``write.py``'s. Legend: P passages,
D dimensions.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Protocol

from jinja2 import Environment, StrictUndefined

from agentic_r.encoder.settings import EncoderSettings
from agentic_r.encoder.text import query_text
from agentic_r.protocols import Vectors
from agentic_r.types import Passage, QueryText

__all__ = ["Engine", "Facts", "number_lists", "render_recipe", "shown_query"]


@dataclass(frozen=True, slots=True)
class Facts:
    """What a recipe is generated from.

    The encoder's settings and fingerprint, the length of the vectors, the name of the collection, and the files that
    hold the passages, in order.
    """

    settings: EncoderSettings
    fingerprint: str
    dimension: int
    name: str
    parts: tuple[str, ...] = ()


class Engine(Protocol):
    """One engine's files."""

    @property
    def suffix(self) -> str:
        """End of a part's name."""
        ...

    def refuses(self, passage: Passage) -> str:
        """Return why the engine cannot take a passage; empty where it can."""
        ...

    def part(self, passages: Sequence[Passage], vectors_PD: Vectors) -> bytes:
        """Return a part's whole content."""
        ...

    def complete(self, folder: Path, facts: Facts) -> None:
        """Write what belongs to all parts: schema, queries, recipe."""
        ...


def number_lists(vectors_PD: Vectors) -> Iterator[list[float]]:
    """Yield each row as numbers whose nine digits give back the same float32."""
    for row in vectors_PD:
        yield [float(f"{value:.9g}") for value in row]


def shown_query(settings: EncoderSettings) -> str:
    """What a query's text looks like, prefix included, e.g. ``query: {question} [SEP] {query}``."""
    return query_text(QueryText(query="{query}", question="{question}"), settings)


def render_recipe(template: str, facts: Facts) -> str:
    """Return the recipe of an engine as Markdown."""
    place = resources.files("agentic_r.export.engines").joinpath("recipes", template)
    environment = Environment(undefined=StrictUndefined, keep_trailing_newline=True, autoescape=False)
    recipe = environment.from_string(place.read_text(encoding="utf-8"))
    return recipe.render(facts=facts, query=shown_query(facts.settings))
