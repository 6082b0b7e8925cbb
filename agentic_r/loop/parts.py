"""What finished stages made, loaded when first needed and kept while the run lasts.

Corpus, questions, encoders with their indexes, agents. Nothing here decides or trains.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import torch

from agentic_r.agent.rollout import Rollout
from agentic_r.artifacts.records import read_records
from agentic_r.config import PretrainedLanguageModel, RunConfig, TinyLanguageModel
from agentic_r.corpus.gold import answer_bearing
from agentic_r.corpus.store import Corpus, load_corpus
from agentic_r.encoder.bi_encoder import BiEncoder
from agentic_r.index.bm25 import open_bm25_index
from agentic_r.index.dense import open_dense_index
from agentic_r.index.retriever import Bm25Retriever, DenseRetriever, QueryOnly, ServingRetriever
from agentic_r.llm.packages import language_model_folder
from agentic_r.llm.transformers_model import TransformersModel
from agentic_r.loop.layout import BASE_WITH_QUESTION
from agentic_r.types import Question, RecordedQuery

__all__ = ["Parts", "save_model"]

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


@dataclass(slots=True)
class _Kept:
    retrievers: dict[str, ServingRetriever] = field(default_factory=dict)
    encoders: dict[int, BiEncoder] = field(default_factory=dict)
    agents: dict[str, TransformersModel] = field(default_factory=dict)


class Parts:
    """The parts of one run."""

    def __init__(self, config: RunConfig) -> None:
        self.config = config
        self.root = config.folder
        self._kept = _Kept()

    @cached_property
    def corpus(self) -> Corpus:
        """Documents and passages."""
        return load_corpus(self.root / "corpus")

    @cached_property
    def questions(self) -> Mapping[str, Question]:
        """All questions with their gold passages, by id."""
        return {item.id: item for item in read_records(self.root / "corpus" / "questions.jsonl", Question)}

    @property
    def train_questions(self) -> list[Question]:
        """Questions that agent and retriever learn from."""
        return [item for item in self.questions.values() if item.split == "train"]

    @property
    def heldout_questions(self) -> list[Question]:
        """Questions that everything is measured on."""
        return [item for item in self.questions.values() if item.split == "heldout"]

    @cached_property
    def recorded_queries(self) -> list[RecordedQuery]:
        """The frozen query set of the held-out questions."""
        return list(read_records(self.root / "queries" / "queries.jsonl", RecordedQuery))

    @cached_property
    def answer_bearing(self) -> Mapping[str, tuple[str, ...]]:
        """Passages that hold an answer, for held-out questions whose data names no gold."""
        without = [item for item in self.heldout_questions if not item.gold_passages]
        return answer_bearing(without, self.corpus.passages.values())

    def encoder(self, iteration: int) -> BiEncoder:
        """The encoder that an iteration ended with; 0 is the base."""
        return BiEncoder.load(self.root / f"iter-{iteration}" / "retriever" / "encoder")

    def retriever(self, name: str) -> ServingRetriever:
        """``bm25``, ``base`` (asked the query alone, as published), ``base+question`` or ``iter-N``."""
        if name not in self._kept.retrievers:
            self._kept.retrievers[name] = self._open_retriever(name)
        return self._kept.retrievers[name]

    def _open_retriever(self, name: str) -> ServingRetriever:
        if name == "bm25":
            return Bm25Retriever(open_bm25_index(self.root / "bm25" / "index"))
        if name == "base":
            return QueryOnly(self.retriever(BASE_WITH_QUESTION))
        iteration = _iteration(name)
        encoder = self._kept.encoders[iteration] = self.encoder(iteration)
        return DenseRetriever(encoder, open_dense_index(self.root / f"iter-{iteration}" / "index" / "vectors", encoder))

    def serving_encoder(self, name: str) -> BiEncoder:
        """The one instance that encodes the queries of a dense retriever."""
        self.retriever(name)
        return self._kept.encoders[_iteration(name)]

    def agent(self, name: str) -> TransformersModel:
        """``warm`` or ``iter-N``, in evaluation mode."""
        if name not in self._kept.agents:
            self._kept.agents[name] = self.new_model(self.agent_folder(name))
        return self._kept.agents[name]

    def agent_folder(self, name: str) -> Path:
        """The checkpoint of an agent."""
        return self.root / name / "agent" / "model"

    def starting_model(self) -> TransformersModel:
        """The language model that the warm start begins with."""
        match self.config.agent.model:
            case TinyLanguageModel(path=folder):
                return self.new_model(folder)
            case PretrainedLanguageModel(path=path):
                return self.new_model(language_model_folder(path, cache=self.root / "cache"))

    def new_model(self, folder: Path) -> TransformersModel:
        """A fresh copy of a model, for training or for keeping."""
        match self.config.agent.model:
            case PretrainedLanguageModel(dtype=dtype):
                return TransformersModel.load(folder, dtype=_DTYPES[dtype])
            case _:
                return TransformersModel.load(folder)

    def rollout(self, model: TransformersModel, retriever: str) -> Rollout:
        """The agent at work with one of the run's retrievers."""
        return Rollout(
            model=model, retriever=self.retriever(retriever), passages=self.corpus.passages, config=self.config.agent
        )


def _iteration(retriever: str) -> int:
    return int(retriever.removeprefix("iter-")) if retriever.startswith("iter-") else 0


def save_model(model: TransformersModel, folder: Path) -> None:
    """Write a model and its tokenizer as a Hugging Face folder, whole or not at all."""
    part = folder.with_name(folder.name + ".part")
    model.model.save_pretrained(part)
    model.tokenizer.save_pretrained(part)
    part.replace(folder)
