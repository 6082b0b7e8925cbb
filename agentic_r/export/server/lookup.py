"""One search from the terminal: the query through the encoder and its index, shown as text or JSON."""

import textwrap
from dataclasses import dataclass

from agentic_r.errors import ConfigError
from agentic_r.export.server.folders import ServedFolders
from agentic_r.export.server.served import load_served
from agentic_r.types import Passage, QueryText

__all__ = ["Hit", "Lookup", "look_up"]

_WIDTH = 100


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage and its cosine."""

    score: float
    passage: Passage


@dataclass(frozen=True, slots=True)
class Lookup:
    """What was asked and found; ``is_cut`` where question or query was longer than the encoder takes."""

    query: QueryText
    is_cut: bool
    hits: tuple[Hit, ...]

    def to_json(self) -> dict[str, object]:
        """Return what ``--json`` prints; hits as ``POST /search`` has them."""
        hits = [
            {
                "rank": rank,
                "score": hit.score,
                "passage_id": hit.passage.id,
                "document_id": hit.passage.document_id,
                "title": hit.passage.title,
                "text": hit.passage.text,
            }
            for rank, hit in enumerate(self.hits, start=1)
        ]
        asked = {"query": self.query.query, "question": self.query.question, "history": list(self.query.history)}
        return {**asked, "cut": self.is_cut, "hits": hits}

    def text(self) -> str:
        """Return what is printed."""
        blocks = ["(shortened to the encoder's limit)"] if self.is_cut else []
        for rank, hit in enumerate(self.hits, start=1):
            title = f"  {hit.passage.title}" if hit.passage.title else ""
            body = textwrap.fill(hit.passage.text, _WIDTH, initial_indent="   ", subsequent_indent="   ")
            blocks.append(f"{rank}. {hit.score:.4f}  {hit.passage.id}{title}\n{body}")
        return "\n".join(blocks) or "no passage: the index is empty"


def look_up(folders: ServedFolders, asked: QueryText, *, k: int) -> Lookup:
    """Search an index once.

    Args:
        folders: Of ``find_folders``.
        asked: What to search for; question and earlier queries may be empty.
        k: Passages wanted.

    Raises:
        ConfigError: there is no index.
        FingerprintError: encoder, index and passages do not belong together.
    """
    served = load_served(folders)
    if served.searched is None:
        raise ConfigError(f"{folders.encoder}: an export alone holds no passages; add --index and --corpus")
    measured = served.encoder.encode_measured([asked])
    result = served.searched.dense.search(measured.vectors_BD, k=k)[0]
    hits = tuple(Hit(hit.value, served.searched.passages[hit.passage_id]) for hit in result.passages)
    return Lookup(asked, measured.cut[0], hits)
