"""PostgreSQL with pgvector: a table, COPY files, an index, a query.

The table's name is quoted, so that it may be a word of SQL.
Legend: P passages, D dimensions.
"""

from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from jinja2 import Environment, StrictUndefined

from agentic_r.artifacts.jsonl import write_text_atomic
from agentic_r.export.engines.engine import Facts, number_lists, render_recipe
from agentic_r.protocols import Vectors
from agentic_r.types import Passage

__all__ = ["MAX_PGVECTOR_DIMENSION", "PgvectorEngine"]

MAX_PGVECTOR_DIMENSION = 4000  # that a halfvec index takes

_MAX_INDEXED = 2000  # dimensions that pgvector indexes as vector; beyond, as halfvec
_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


class PgvectorEngine:
    """DDL and COPY in text format."""

    suffix = ".copy"

    def refuses(self, passage: Passage) -> str:
        """Refuse U+0000, which no PostgreSQL text may hold."""
        texts = (passage.id, passage.document_id, passage.title, passage.text)
        return "the character U+0000" if any("\0" in text for text in texts) else ""

    def part(self, passages: Sequence[Passage], vectors_PD: Vectors) -> bytes:
        """Return lines for ``COPY ... FROM`` in text format."""
        lines = []
        for passage, numbers in zip(passages, number_lists(vectors_PD), strict=True):
            texts = [passage.id, passage.document_id, passage.title, passage.text]
            vector = "[" + ",".join(map(repr, numbers)) + "]"
            lines.append("\t".join([*(text.translate(_ESCAPES) for text in texts), vector]) + "\n")
        return "".join(lines).encode()

    def complete(self, folder: Path, facts: Facts) -> None:
        """Write schema, load script, query and recipe."""
        half = facts.dimension > _MAX_INDEXED
        for name in ("schema.sql", "index.sql", "load.sql", "query.sql"):
            template = resources.files("agentic_r.export.engines").joinpath("recipes", f"{name}.jinja")
            environment = Environment(undefined=StrictUndefined, keep_trailing_newline=True, autoescape=False)
            text = environment.from_string(template.read_text(encoding="utf-8")).render(facts=facts, half=half)
            write_text_atomic(folder / name, text)
        write_text_atomic(folder / "README.md", render_recipe("pgvector.md.jinja", facts))
