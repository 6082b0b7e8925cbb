"""Vespa: an application package and a feed.

Legend: P passages, D dimensions.
"""

import json
import unicodedata
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from jinja2 import Environment, StrictUndefined

from agentic_r.artifacts.jsonl import write_json, write_text_atomic
from agentic_r.export.engines.engine import Facts, number_lists, render_recipe
from agentic_r.protocols import Vectors
from agentic_r.types import Passage

__all__ = ["VespaEngine"]

_ALLOWED_CONTROLS = "\t\n\r"


class VespaEngine:
    """Schema, services and documents."""

    suffix = ".jsonl"

    def refuses(self, passage: Passage) -> str:
        """Refuse control characters, which no Vespa string may hold, and an empty id."""
        if not passage.id:
            return "an empty id"
        for text in (passage.id, passage.document_id, passage.title, passage.text):
            if any(unicodedata.category(sign) == "Cc" and sign not in _ALLOWED_CONTROLS for sign in text):
                return "a control character"
        return ""

    def part(self, passages: Sequence[Passage], vectors_PD: Vectors) -> bytes:
        """Return one document a line, as ``vespa feed`` reads it."""
        lines = [
            json.dumps(
                {
                    "put": f"id:agentic_r:passage::{passage.id}",
                    "fields": {
                        "id": passage.id,
                        "document_id": passage.document_id,
                        "title": passage.title,
                        "text": passage.text,
                        "embedding": {"values": numbers},
                    },
                },
                ensure_ascii=False,
            )
            for passage, numbers in zip(passages, number_lists(vectors_PD), strict=True)
        ]
        return "".join(line + "\n" for line in lines).encode()

    def complete(self, folder: Path, facts: Facts) -> None:
        """Write the application package, a query and the recipe."""
        for name in ("services.xml", "schemas/passage.sd"):
            template = resources.files("agentic_r.export.engines").joinpath("recipes", f"{Path(name).name}.jinja")
            environment = Environment(undefined=StrictUndefined, keep_trailing_newline=True, autoescape=False)
            text = environment.from_string(template.read_text(encoding="utf-8")).render(facts=facts)
            write_text_atomic(folder / "application" / name, text)
        query = {
            "yql": "select id, document_id, title, text from passage where "
            "{targetHits: 10}nearestNeighbor(embedding, query_embedding)",
            "ranking": "semantic",
            "hits": 10,
            "input.query(query_embedding)": [],
        }
        write_json(folder / "query.json", query)
        write_text_atomic(folder / "README.md", render_recipe("vespa.md.jinja", facts))
