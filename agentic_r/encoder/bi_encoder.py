"""The bi-encoder: one sentence-transformers model for queries and passages.

Owns tokenising, lengths, batching and the encoder's fingerprint. Text format is ``text.py``'s, passes without padding
are ``packing.py``'s, pooling and normalisation are the model's own modules, training is the contrastive trainer's.
Legend: B texts, T tokens, D dimensions.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from sentence_transformers import SentenceTransformer

from agentic_r.encoder.checkpoint import fast_tokenizer, fit_checkpoint, load_sentence_transformer
from agentic_r.encoder.identity import model_fingerprint
from agentic_r.encoder.packing import Features, enable_packing, pack
from agentic_r.encoder.settings import EncoderSettings, WeightType, read_settings, write_settings
from agentic_r.encoder.text import FormattedQuery, fit_query, passage_text, query_text, strip_control_tokens
from agentic_r.errors import DataError
from agentic_r.onednn import quick_linear
from agentic_r.protocols import Vectors
from agentic_r.quiet import quiet_transformers
from agentic_r.types import Passage, QueryText

__all__ = ["BiEncoder", "CutCounts", "MeasuredVectors", "PassageLengths"]

# Padded tokens a forward pass (our choice): short queries go through in one pass, long texts in small ones.
_TOKENS_A_PASS_CPU = 4096
_TOKENS_A_PASS_GPU = 65536
_TOKENS_WORTH_A_LAYOUT = 8192  # laying weights out costs what 1,000 tokens gain (docs/log.md)


@dataclass(frozen=True, slots=True)
class CutCounts:
    """What encoding has shortened so far: calls count queries, ids name passages once each."""

    queries: int
    histories_shortened: int
    questions_shortened: int
    queries_cut: int
    passages: int
    passages_cut: tuple[str, ...]
    texts_with_control_tokens: int


@dataclass(frozen=True, slots=True)
class PassageLengths:
    """How a set of passages fits the encoder; tokens count the prefix and the special tokens."""

    num_passages: int
    cut: tuple[str, ...]
    num_tokens: int
    num_tokens_lost: int


@dataclass(frozen=True, slots=True)
class MeasuredVectors:
    """(B, D) float32 rows of norm 1; of each text the tokens that were encoded, and whether some were left out."""

    vectors_BD: Vectors
    num_tokens: tuple[int, ...]
    cut: tuple[bool, ...]


class BiEncoder:
    """An encoder for queries and passages (``protocols.Encoder``)."""

    def __init__(self, model: SentenceTransformer, settings: EncoderSettings) -> None:
        """Take a model whose first module is a Transformer and make it agree with ``settings``.

        A pooler is removed, a missing normalisation appended; prompts and lengths are also written where
        sentence-transformers looks for them, so that its ``encode_query`` and ``encode_document`` agree.

        Raises:
            ConfigError: the checkpoint needs something that this encoder does not do, or the lengths
                leave no room for text.
        """
        self._model = model
        self._settings = settings
        self._tokenizer = fast_tokenizer(model)
        self._control_tokens = tuple(self._tokenizer.all_special_tokens)
        fit_checkpoint(model, settings)
        self._first_position = enable_packing(model)
        self._fixed = ExitStack()
        self._queries = 0
        self._histories_shortened = 0
        self._questions_shortened = 0
        self._queries_cut = 0
        self._passages = 0
        self._passages_cut: set[str] = set()
        self._texts_with_control_tokens = 0

    @classmethod
    def load(cls, path: Path, *, dtype: WeightType | None = None, device: str | None = None) -> "BiEncoder":
        """Load a folder that ``save`` wrote.

        Args:
            path: The folder.
            dtype: Type of the weights in memory; by default the one that the settings name. A trainer
                asks for float32.
            device: Where to put the model; by default where sentence-transformers puts it.

        Raises:
            ConfigError: the folder is not a saved encoder.
        """
        settings = read_settings(path)
        return cls(load_sentence_transformer(path, dtype=dtype or settings.dtype, device=device), settings)

    def fix_weights(self) -> None:
        """Encode faster from now on, and be trained no more: weights are laid out once, in a copy."""
        self._model.requires_grad_(False)
        self._fixed.enter_context(quick_linear(self._model, weights_stay=True))

    def save(self, path: Path) -> None:
        """Write a sentence-transformers folder with ``agentic_r.json`` (last) in it."""
        path.mkdir(parents=True, exist_ok=True)
        with quiet_transformers():
            self._model.save(str(path), create_model_card=False)
        write_settings(path, self._settings)

    @property
    def model(self) -> SentenceTransformer:
        """The model itself, for the trainer."""
        return self._model

    @property
    def settings(self) -> EncoderSettings:
        """Prefixes, format and lengths."""
        return self._settings

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return self._model.get_embedding_dimension() or 0

    @property
    def fingerprint(self) -> str:
        """Hash of weights, architecture, pooling, tokenizer and settings as they are now (not cached)."""
        return model_fingerprint(self._model, self._tokenizer, self._settings.model_dump())

    def format_query(self, query: QueryText) -> str:
        """Return the text that is tokenised for ``query``: prefix, question, separator, query."""
        return self._format_queries([self._clean_query(query)])[0].text

    def format_passage(self, passage: Passage) -> str:
        """Return the text that is tokenised for ``passage``; tokens over the limit are cut at its end."""
        return passage_text(self._clean_passage(passage), self._settings)

    def encode_queries(self, queries: Sequence[QueryText]) -> Vectors:
        """Return (Q, D) float32 rows of norm 1, in the order of ``queries``."""
        return self._encode(self._query_ids(queries), [query.query for query in queries])

    def encode_passages(self, passages: Sequence[Passage]) -> Vectors:
        """Return (P, D) float32 rows of norm 1, in the order of ``passages``."""
        return self._encode(self._passage_ids(passages), [passage.id for passage in passages])

    def encode_measured(self, texts: Sequence[QueryText | Passage | str]) -> MeasuredVectors:
        """Encode texts of all kinds together, as a server gets them; ``count_cut`` leaves these out.

        Args:
            texts: Queries, passages, and strings that are encoded as they stand: whoever wrote them added a prefix, or
                wants none.
        """
        queries = iter(self._format_queries([self._clean_query(text) for text in texts if isinstance(text, QueryText)]))
        formatted = [
            next(queries) if isinstance(text, QueryText) else FormattedQuery(self._written(text)) for text in texts
        ]
        ids = self._tokenize([item.text for item in formatted])
        cut = [bool(item.cut) for item in formatted]
        for row, text in enumerate(texts):
            if isinstance(text, QueryText):
                continue
            limit = self._settings.max_passage_tokens if isinstance(text, Passage) else self._max_tokens
            if len(ids[row]) > limit:
                ids[row] = self._tokenizer(formatted[row].text, truncation=True, max_length=limit)["input_ids"]
                cut[row] = True
        return MeasuredVectors(
            vectors_BD=self._encode(ids, [item.text for item in formatted]),
            num_tokens=tuple(len(row) for row in ids),
            cut=tuple(cut),
        )

    @property
    def _max_tokens(self) -> int:
        return max(self._settings.max_query_tokens, self._settings.max_passage_tokens)

    def _written(self, text: Passage | str) -> str:
        return text if isinstance(text, str) else self.format_passage(text)

    def query_features(self, queries: Sequence[QueryText]) -> Features:
        """Return padded (B, T) ``input_ids`` and ``attention_mask``: what ``model`` takes in training."""
        return self._pad(self._query_ids(queries))

    def passage_features(self, passages: Sequence[Passage]) -> Features:
        """Return padded (B, T) ``input_ids`` and ``attention_mask``: what ``model`` takes in training."""
        return self._pad(self._passage_ids(passages))

    def count_cut(self) -> CutCounts:
        """Return what this object has shortened since it was made."""
        return CutCounts(
            queries=self._queries,
            histories_shortened=self._histories_shortened,
            questions_shortened=self._questions_shortened,
            queries_cut=self._queries_cut,
            passages=self._passages,
            passages_cut=tuple(sorted(self._passages_cut)),
            texts_with_control_tokens=self._texts_with_control_tokens,
        )

    def measure_passages(self, passages: Sequence[Passage]) -> PassageLengths:
        """Say which passages are longer than the limit and how much of them is lost; encodes nothing."""
        limit = self._settings.max_passage_tokens
        lengths = [len(ids) for ids in self._tokenize([self.format_passage(passage) for passage in passages])]
        return PassageLengths(
            num_passages=len(passages),
            cut=tuple(passage.id for passage, length in zip(passages, lengths, strict=True) if length > limit),
            num_tokens=sum(lengths),
            num_tokens_lost=sum(max(0, length - limit) for length in lengths),
        )

    def _query_ids(self, queries: Sequence[QueryText]) -> list[list[int]]:
        cleaned = [self._clean_query(query) for query in queries]
        formatted = self._format_queries(cleaned)
        self._queries += len(queries)
        self._histories_shortened += sum("history" in item.cut for item in formatted)
        self._questions_shortened += sum("question" in item.cut for item in formatted)
        self._queries_cut += sum("query" in item.cut for item in formatted)
        self._texts_with_control_tokens += sum(
            (before.query.strip(), before.question.strip()) != (after.query, after.question)
            or tuple(text.strip() for text in before.history) != after.history
            for before, after in zip(queries, cleaned, strict=True)
        )
        return self._tokenize([item.text for item in formatted])

    def _passage_ids(self, passages: Sequence[Passage]) -> list[list[int]]:
        cleaned = [self._clean_passage(passage) for passage in passages]
        texts = [passage_text(passage, self._settings) for passage in cleaned]
        limit = self._settings.max_passage_tokens
        ids = self._tokenize(texts)
        for row, (passage, text) in enumerate(zip(passages, texts, strict=True)):
            if len(ids[row]) > limit:
                self._passages_cut.add(passage.id)
                ids[row] = self._tokenizer(text, truncation=True, max_length=limit)["input_ids"]
        self._passages += len(passages)
        self._texts_with_control_tokens += sum(
            before.text.strip() != after.text or before.title.strip() != after.title
            for before, after in zip(passages, cleaned, strict=True)
        )
        return ids

    def _clean_query(self, query: QueryText) -> QueryText:
        return QueryText(
            query=strip_control_tokens(query.query, self._control_tokens),
            question=strip_control_tokens(query.question, self._control_tokens),
            history=tuple(strip_control_tokens(text, self._control_tokens) for text in query.history),
        )

    def _clean_passage(self, passage: Passage) -> Passage:
        return Passage(
            id=passage.id,
            document_id=passage.document_id,
            title=strip_control_tokens(passage.title, self._control_tokens),
            text=strip_control_tokens(passage.text, self._control_tokens),
        )

    def _format_queries(self, queries: Sequence[QueryText]) -> list[FormattedQuery]:
        texts = [query_text(query, self._settings) for query in queries]
        lengths = [len(ids) for ids in self._tokenize(texts)]
        return [
            FormattedQuery(text)
            if length <= self._settings.max_query_tokens
            else fit_query(query, self._settings, lambda text: len(self._tokenize([text])[0]))
            for query, text, length in zip(queries, texts, lengths, strict=True)
        ]

    def _tokenize(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids with the special ones, neither cut nor padded."""
        if not texts:
            return []
        encoded = self._tokenizer(
            list(texts), truncation=False, return_attention_mask=False, return_token_type_ids=False, verbose=False
        )
        ids: list[list[int]] = encoded["input_ids"]
        return ids

    def _pad(self, ids: Sequence[Sequence[int]]) -> Features:
        width = max((len(row) for row in ids), default=0)
        input_ids_BT = torch.full((len(ids), width), self._tokenizer.pad_token_id, dtype=torch.long)
        attention_mask_BT = torch.zeros((len(ids), width), dtype=torch.long)
        left = self._tokenizer.padding_side == "left"
        for number, row in enumerate(ids):
            place = slice(width - len(row), width) if left else slice(0, len(row))
            input_ids_BT[number, place] = torch.tensor(row, dtype=torch.long)
            attention_mask_BT[number, place] = 1
        device = self._model.device
        return {"input_ids": input_ids_BT.to(device), "attention_mask": attention_mask_BT.to(device)}

    def _encode(self, ids: Sequence[Sequence[int]], names: Sequence[str]) -> Vectors:
        """Encode each distinct text once, so that equal texts of a call have equal vectors."""
        number_of: dict[tuple[int, ...], int] = {}
        numbers = [number_of.setdefault(tuple(row), len(number_of)) for row in ids]
        vectors_BD = self._forward([*number_of])[numbers]
        finite_B = np.isfinite(vectors_BD).all(axis=1)
        if not finite_B.all():
            name = names[int(np.flatnonzero(~finite_B)[0])]
            raise DataError(
                f"encoder: {int((~finite_B).sum())} of {len(ids)} vectors are not finite, first for {name!r}; "
                "its weights are broken: use an earlier checkpoint"
            )
        return vectors_BD

    def _forward(self, ids: Sequence[Sequence[int]]) -> Vectors:
        vectors_BD = np.zeros((len(ids), self.dimension), dtype=np.float32)
        was_training = self._model.training
        self._model.eval()
        weights_stay = sum(map(len, ids)) >= _TOKENS_WORTH_A_LAYOUT
        with torch.inference_mode(), quick_linear(self._model, weights_stay=weights_stay):
            for rows in self._passes(ids):
                features = self._pad([ids[row] for row in rows])
                if self._first_position is not None and self._model.device.type == "cpu":
                    features = pack(features, first_position=self._first_position)
                pooled_BD = self._model(features)["sentence_embedding"]
                unit_BD = torch.nn.functional.normalize(pooled_BD.float(), dim=-1)
                vectors_BD[rows] = unit_BD.cpu().numpy()
        self._model.train(was_training)
        return vectors_BD

    def _passes(self, ids: Sequence[Sequence[int]]) -> list[list[int]]:
        """Row numbers in batches of like length, shortest first, within the padded token budget."""
        budget = _TOKENS_A_PASS_CPU if self._model.device.type == "cpu" else _TOKENS_A_PASS_GPU
        passes: list[list[int]] = []
        for row in sorted(range(len(ids)), key=lambda number: len(ids[number])):
            if passes and (len(passes[-1]) + 1) * len(ids[row]) <= budget:
                passes[-1].append(row)
            else:
                passes.append([row])
        return passes
