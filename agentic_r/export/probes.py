"""The texts on which an export is compared with its encoder, by kind.

Owns what is tried: short, long, at the limit, beyond it, other scripts, emoji, one token, with the prefix
written by hand, without it, and the run's own queries and passages. How they are compared is ``parity.py``'s.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from sentence_transformers import SentenceTransformer
from transformers import PreTrainedTokenizerBase

from agentic_r.encoder.bi_encoder import BiEncoder
from agentic_r.encoder.checkpoint import fast_tokenizer
from agentic_r.protocols import Vectors
from agentic_r.types import Passage, QueryText

__all__ = ["BEYOND_LIMIT", "Probe", "collect_probes"]

BEYOND_LIMIT = 50  # words over the limit

_TEXTS = {
    "short": ("where does the river end",),
    "CJK": ("川はどこで終わりますか", "这条河在哪里结束", "강은 어디에서 끝나나요"),
    "emoji": ("🌊🏞️ river 👩‍🔬",),
    "one token": ("river", "7"),
}
_REPEATED = ("river", "water", "the", "a", "x", "1")  # the first that is one token fills texts to the limit


@dataclass(frozen=True, slots=True)
class Probe:
    """One kind of text: (N, D) vectors that must be equal, row by row."""

    kind: str
    expected: Vectors
    found: Vectors


def collect_probes(
    encoder: BiEncoder, model: SentenceTransformer, *, queries: Sequence[QueryText], passages: Sequence[Passage]
) -> list[Probe]:
    """Encode every kind of text with both.

    Args:
        encoder: What was trained.
        model: The export, as anybody loads it.
        queries: Real queries of the run.
        passages: Real passages of the run.
    """
    probes = []
    for kind, texts in (_TEXTS | _length_texts(encoder)).items():
        probes.append(_query_probe(kind, encoder, model, [QueryText(query=text) for text in texts]))
        probes.append(_passage_probe(kind, encoder, model, [_passage(text) for text in texts]))
    probes.extend(_cut_probes(encoder, model))
    probes.extend(_prefix_probes(encoder, model))
    if queries:
        probes.append(_query_probe("of the run", encoder, model, queries))
    if passages:
        probes.append(_passage_probe("of the run", encoder, model, passages))
    return probes


def _query_probe(kind: str, encoder: BiEncoder, model: SentenceTransformer, queries: Sequence[QueryText]) -> Probe:
    """Give the export what the encoder's own format makes of a query: which part is cut is the format's business."""
    prefix = encoder.settings.query_prefix
    texts = [encoder.format_query(query).removeprefix(prefix) for query in queries]
    return Probe(f"query, {kind}", encoder.encode_queries(queries), _encode(model, "query", texts))


def _passage_probe(kind: str, encoder: BiEncoder, model: SentenceTransformer, passages: Sequence[Passage]) -> Probe:
    prefix = encoder.settings.passage_prefix
    texts = [encoder.format_passage(passage).removeprefix(prefix) for passage in passages]
    return Probe(f"passage, {kind}", encoder.encode_passages(passages), _encode(model, "document", texts))


def _length_texts(encoder: BiEncoder) -> dict[str, tuple[str, ...]]:
    query_limit, passage_limit = _words_at_limit(encoder)
    return {
        "long": (_words(encoder, passage_limit // 2),),
        "at the limit": (_words(encoder, query_limit), _words(encoder, passage_limit)),
        f"limit + {BEYOND_LIMIT}": (_words(encoder, max(query_limit, passage_limit) + BEYOND_LIMIT),),
    }


def _cut_probes(encoder: BiEncoder, model: SentenceTransformer) -> list[Probe]:
    """Compare a text beyond the limit with its cut form, both by the export; needs a word that is one token."""
    tokenizer = fast_tokenizer(encoder.model)
    if _tokens_per_word(tokenizer, _repeated_word(tokenizer)) != 1:
        return []
    probes = []
    sides: tuple[Literal["query", "document"], ...] = ("query", "document")
    for side, limit in zip(sides, _words_at_limit(encoder), strict=True):
        cut = _encode(model, side, [_words(encoder, limit)])
        whole = _encode(model, side, [_words(encoder, limit + BEYOND_LIMIT)])
        name = "query" if side == "query" else "passage"
        probes.append(Probe(f"{name}, limit + {BEYOND_LIMIT} against its cut form", cut, whole))
    return probes


def _prefix_probes(encoder: BiEncoder, model: SentenceTransformer) -> list[Probe]:
    settings, texts = encoder.settings, _TEXTS["one token"]
    by_hand_queries = _encode(model, "", [settings.query_prefix + text for text in texts])
    by_hand_passages = _encode(model, "", [settings.passage_prefix + text for text in texts])
    queries = encoder.encode_queries([QueryText(query=text) for text in texts])
    passages = encoder.encode_passages([_passage(text) for text in texts])
    bare = _TEXTS["short"] + _TEXTS["CJK"]
    return [
        Probe("query, prefix by hand", queries, by_hand_queries),
        Probe("passage, prefix by hand", passages, by_hand_passages),
        Probe("without prefix", _encode(encoder.model, "", bare), _encode(model, "", bare)),
    ]


def _passage(text: str) -> Passage:
    return Passage(id=text, document_id="probe", title="", text=text)


def _encode(model: SentenceTransformer, side: Literal["query", "document", ""], texts: Sequence[str]) -> Vectors:
    match side:
        case "query":
            vectors = model.encode_query(list(texts), show_progress_bar=False)
        case "document":
            vectors = model.encode_document(list(texts), show_progress_bar=False)
        case "":
            vectors = model.encode(list(texts), show_progress_bar=False)
    return np.asarray(vectors, dtype=np.float32)


def _words_at_limit(encoder: BiEncoder) -> tuple[int, int]:
    """Count the repeated words that fill a query and a passage (exactly, where one word is one token)."""
    settings, tokenizer = encoder.settings, fast_tokenizer(encoder.model)
    word = _repeated_word(tokenizer)
    per_word = _tokens_per_word(tokenizer, word)
    counts = []
    for prefix, limit in (
        (settings.query_prefix, settings.max_query_tokens),
        (settings.passage_prefix, settings.max_passage_tokens),
    ):
        with_one = len(tokenizer(prefix + word)["input_ids"])
        counts.append(max(1, 1 + (limit - with_one) // per_word))
    return counts[0], counts[1]


def _words(encoder: BiEncoder, count: int) -> str:
    return " ".join([_repeated_word(fast_tokenizer(encoder.model))] * count)


def _repeated_word(tokenizer: PreTrainedTokenizerBase) -> str:
    return min(_REPEATED, key=lambda word: _tokens_per_word(tokenizer, word))


def _tokens_per_word(tokenizer: PreTrainedTokenizerBase, word: str) -> int:
    return len(tokenizer(f"{word} {word} {word}")["input_ids"]) - len(tokenizer(f"{word} {word}")["input_ids"])
