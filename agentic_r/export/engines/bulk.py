"""Bulk files for Elasticsearch and OpenSearch: newline-delimited actions, mapping, a query.

Vectors have norm 1, so the inner product is the cosine; both engines are told so. Legend: P passages, D dimensions.
"""

import json
from collections.abc import Sequence
from pathlib import Path

from agentic_r.artifacts.jsonl import JsonObject, write_json, write_text_atomic
from agentic_r.export.engines.engine import Facts, number_lists, render_recipe
from agentic_r.protocols import Vectors
from agentic_r.types import Passage

__all__ = ["ElasticsearchEngine", "OpenSearchEngine"]

_MAX_ID_BYTES = 512  # of both engines
_HITS = 10


class _BulkEngine:
    """What both have in common: actions, and ids of at most 512 bytes."""

    suffix = ".ndjson"

    def refuses(self, passage: Passage) -> str:
        """Refuse ids that are empty or too long."""
        if not passage.id:
            return "an empty id"
        return f"id of more than {_MAX_ID_BYTES} bytes" if len(passage.id.encode()) > _MAX_ID_BYTES else ""

    def part(self, passages: Sequence[Passage], vectors_PD: Vectors) -> bytes:
        """Return the body of one ``_bulk`` request."""
        lines = []
        for passage, numbers in zip(passages, number_lists(vectors_PD), strict=True):
            source = {
                "document_id": passage.document_id,
                "title": passage.title,
                "text": passage.text,
                "embedding": numbers,
            }
            lines += [_line({"index": {"_id": passage.id}}), _line(source)]
        return "".join(lines).encode()


class ElasticsearchEngine(_BulkEngine):
    """Elasticsearch 8 and later."""

    def complete(self, folder: Path, facts: Facts) -> None:
        """Write mapping, query and recipe."""
        embedding = {
            "type": "dense_vector",
            "dims": facts.dimension,
            "index": True,
            "similarity": "dot_product",
            "index_options": {"type": "hnsw"},
        }
        write_json(folder / "mapping.json", {"mappings": _mappings(embedding, facts)})
        knn = {"field": "embedding", "query_vector": [], "k": _HITS, "num_candidates": 10 * _HITS}
        write_json(folder / "query.json", {"size": _HITS, "_source": ["document_id", "title", "text"], "knn": knn})
        write_text_atomic(folder / "README.md", render_recipe("elasticsearch.md.jinja", facts))


class OpenSearchEngine(_BulkEngine):
    """OpenSearch 2 and later, with its k-NN plugin."""

    def complete(self, folder: Path, facts: Facts) -> None:
        """Write mapping, query and recipe."""
        embedding = {
            "type": "knn_vector",
            "dimension": facts.dimension,
            "method": {"name": "hnsw", "engine": "faiss", "space_type": "innerproduct"},
        }
        settings = {"index": {"knn": True}}
        write_json(folder / "mapping.json", {"settings": settings, "mappings": _mappings(embedding, facts)})
        knn = {"embedding": {"vector": [], "k": _HITS}}
        query = {"size": _HITS, "_source": ["document_id", "title", "text"], "query": {"knn": knn}}
        write_json(folder / "query.json", query)
        write_text_atomic(folder / "README.md", render_recipe("opensearch.md.jinja", facts))


def _mappings(embedding: JsonObject, facts: Facts) -> JsonObject:
    settings = facts.settings
    return {
        "dynamic": "strict",
        "_meta": {
            "encoder": facts.fingerprint,
            "query_prefix": settings.query_prefix,
            "passage_prefix": settings.passage_prefix,
            "query_format": settings.query_format,
        },
        "properties": {
            "document_id": {"type": "keyword"},
            "title": {"type": "text"},
            "text": {"type": "text"},
            "embedding": embedding,
        },
    }


def _line(value: JsonObject) -> str:
    return json.dumps(value, ensure_ascii=False) + "\n"
