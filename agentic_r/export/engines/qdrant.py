"""Qdrant: bodies for its REST interface.

Point ids there are numbers or UUIDs, so each passage gets the UUID of its id, and the id itself is in the payload.
Legend: P passages, D dimensions.
"""

import json
import uuid
from collections.abc import Sequence
from pathlib import Path

from agentic_r.artifacts.jsonl import write_json, write_text_atomic
from agentic_r.export.engines.engine import Facts, number_lists, render_recipe
from agentic_r.protocols import Vectors
from agentic_r.types import Passage

__all__ = ["QdrantEngine", "point_id"]

_NAMESPACE = uuid.UUID("5b8f3a0e-6f0c-4d43-9f0b-6f5f2f0d8a11")  # ours, made up once: the same id, the same point


class QdrantEngine:
    """Collection, points, a query."""

    suffix = ".json"

    def refuses(self, passage: Passage) -> str:
        """Nothing is refused."""
        return ""

    def part(self, passages: Sequence[Passage], vectors_PD: Vectors) -> bytes:
        """Return the body of one ``PUT /collections/NAME/points``."""
        points = [
            {
                "id": point_id(passage.id),
                "vector": numbers,
                "payload": {
                    "id": passage.id,
                    "document_id": passage.document_id,
                    "title": passage.title,
                    "text": passage.text,
                },
            }
            for passage, numbers in zip(passages, number_lists(vectors_PD), strict=True)
        ]
        return json.dumps({"points": points}, ensure_ascii=False).encode()

    def complete(self, folder: Path, facts: Facts) -> None:
        """Write collection, query and recipe; the vectors have norm 1, so ``Dot`` is the cosine."""
        write_json(folder / "collection.json", {"vectors": {"size": facts.dimension, "distance": "Dot"}})
        write_json(folder / "query.json", {"query": [], "limit": 10, "with_payload": True})
        write_text_atomic(folder / "README.md", render_recipe("qdrant.md.jinja", facts))


def point_id(passage_id: str) -> str:
    """Return the UUID of a passage."""
    return str(uuid.uuid5(_NAMESPACE, passage_id))
