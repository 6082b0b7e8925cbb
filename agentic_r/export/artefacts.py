"""What an encoder has become, each as one thing: texts in, vectors out, exactly as its reader would get them.

Owns the seam and what stands behind it without a server or a graph: the trained encoder itself and the folder as
sentence-transformers loads it. No vector is mended here. Legend: N texts, D dimensions.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, Protocol

import numpy as np
from sentence_transformers import SentenceTransformer

from agentic_r.encoder.checkpoint import load_sentence_transformer
from agentic_r.protocols import Vectors

__all__ = ["Artefact", "FolderVectors", "Side", "encode_side"]

Side = Literal["query", "passage", "plain"]


class Artefact(Protocol):
    """One form of an encoder."""

    @property
    def name(self) -> str:
        """How the report calls it."""
        ...

    def encode(self, texts: Sequence[str], side: Side) -> Vectors:
        """Return (N, D) float32 rows for texts without prefix, as queries or passages; ``plain`` adds no prefix.

        Raises:
            Refused: it does not take these texts.
            ParityError: what it gives are not vectors; says what they are.
        """
        ...


class FolderVectors:
    """The export folder, as anybody loads it with sentence-transformers."""

    name = "sentence-transformers"

    def __init__(self, folder: Path, *, device: str) -> None:
        self.model = load_sentence_transformer(folder, dtype="float32", device=device)

    def encode(self, texts: Sequence[str], side: Side) -> Vectors:
        """Return (N, D) float32 rows."""
        return encode_side(self.model, texts, side)


def encode_side(model: SentenceTransformer, texts: Sequence[str], side: Side) -> Vectors:
    """Encode with sentence-transformers' own three calls; returns (N, D) float32 rows."""
    match side:
        case "query":
            vectors = model.encode_query(list(texts), show_progress_bar=False)
        case "passage":
            vectors = model.encode_document(list(texts), show_progress_bar=False)
        case "plain":
            vectors = model.encode(list(texts), show_progress_bar=False)
    return np.asarray(vectors, dtype=np.float32)
