"""What is served, in memory: the encoder, the index that it built, and the passages behind the ids.

Owns that they belong together: an index of another encoder, or passages of another corpus, are refused by fingerprint.
Legend: B texts, D dimensions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from agentic_r.corpus.store import load_corpus
from agentic_r.encoder.bi_encoder import BiEncoder, MeasuredVectors
from agentic_r.encoder.settings import EncoderSettings, WeightType
from agentic_r.errors import FingerprintError
from agentic_r.export.server.folders import ServedFolders
from agentic_r.index.dense import DenseIndex, open_dense_index
from agentic_r.types import Passage, QueryText

__all__ = ["MeasuringEncoder", "SearchedIndex", "Served", "load_served"]


class MeasuringEncoder(Protocol):
    """What a server asks of an encoder."""

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        ...

    @property
    def settings(self) -> EncoderSettings:
        """Prefixes, format and lengths."""
        ...

    def encode_measured(self, texts: Sequence[QueryText | Passage | str]) -> MeasuredVectors:
        """Return unit vectors, tokens and what was cut, in order."""
        ...


@dataclass(frozen=True, slots=True)
class SearchedIndex:
    """An index and the passages that it names."""

    dense: DenseIndex
    passages: Mapping[str, Passage]


@dataclass(frozen=True, slots=True)
class Served:
    """``fingerprint`` is the encoder's in the type it was exported for; ``dtype`` is the type it encodes in now."""

    name: str
    encoder: MeasuringEncoder
    fingerprint: str
    dtype: WeightType
    searched: SearchedIndex | None


def load_served(folders: ServedFolders, *, dtype: WeightType | None = None, device: str | None = None) -> Served:
    """Load an export, and its index and passages where they are given.

    Args:
        folders: Of ``find_folders``.
        dtype: Type of the weights while encoding; by default the one that the export names. The index keeps the
            vectors that it has.
        device: Where to put the encoder; by default where sentence-transformers puts it.

    Raises:
        ConfigError: a folder is not what it should be.
        FingerprintError: the index was built by another encoder, or from other passages; names both.
    """
    encoder = BiEncoder.load(folders.encoder, device=device)
    fingerprint, own = encoder.fingerprint, encoder.settings.dtype
    searched = None
    if folders.index is not None and folders.corpus is not None:
        dense = open_dense_index(folders.index, encoder)
        corpus = load_corpus(folders.corpus)
        if dense.description.corpus != corpus.fingerprint:
            raise FingerprintError(
                f"{folders.index}: this index was built from corpus {dense.description.corpus}, but {folders.corpus} "
                f"is {corpus.fingerprint}; give the corpus that it was built from, or build the index again"
            )
        searched = SearchedIndex(dense, corpus.passages)
    if dtype is not None and dtype != own:
        encoder = BiEncoder.load(folders.encoder, dtype=dtype, device=device)
    encoder.fix_weights()
    return Served(folders.name, encoder, fingerprint, dtype or own, searched)
