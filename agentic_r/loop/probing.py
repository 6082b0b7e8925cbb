"""The workspace stage: every system that needs no chat model, with the run's retrievers, under the same script.

Owns which retriever meets which system, and what stands for evidence where the data names none. Tools, script and
traces belong to ``workspace``.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from agentic_r.artifacts.records import write_records
from agentic_r.artifacts.stage import StageFolder
from agentic_r.config import SystemName
from agentic_r.errors import ConfigError
from agentic_r.loop.layout import StagePlan, retriever_name, retriever_names
from agentic_r.loop.parts import Parts
from agentic_r.types import Evidence, Question
from agentic_r.workspace.fusion import FusedRanker
from agentic_r.workspace.run import Contender, needs_encoder, run_probe
from agentic_r.workspace.scope import RememberedRanker, ScopeRanker
from agentic_r.workspace.similarity import EncoderSimilarity
from agentic_r.workspace.store import create_store

__all__ = ["Contenders", "probe_workspace", "questions_with_evidence"]

Report = Callable[[int, int], None]

_FUSED = "+"  # between the names of two retrievers whose rankings are fused: bm25+iter-2
_BM25 = "bm25"


def probe_workspace(parts: Parts, plan: StagePlan, stage: StageFolder, report: Report) -> None:
    """Every system with its retrievers as scope ranker, under the same scripted actions."""
    config = parts.config.workspace
    documents = parts.corpus.documents
    store = create_store(stage.path / "store", documents.values())
    contenders = Contenders(parts)
    outcomes = run_probe(
        stage.path / "traces",
        questions=questions_with_evidence(parts),
        queries=parts.recorded_queries,
        contenders=[contenders.make(system, name) for system in config.systems for name in _retrievers(parts, system)],
        store=store,
        config=config,
        progress=report,
    )
    write_records(stage.path / "outcomes.jsonl", outcomes)
    stage.counts.update(documents=len(documents), probes=len(outcomes), texts_encoded=contenders.num_encoded)
    for item in outcomes:
        if item.state != "ok":
            place = stage.failed if item.state == "failed" else stage.skipped
            place[item.state] = place.get(item.state, 0) + 1


def questions_with_evidence(parts: Parts) -> list[Question]:
    """The held-out questions; without evidence in the data, answer-bearing passages stand in (the report says so)."""
    return [_with_evidence(item, parts) for item in parts.heldout_questions]


class Contenders:
    """Makes contenders that share what they can: one ranker, and one encoder with its vectors, a retriever."""

    def __init__(self, parts: Parts) -> None:
        """Use the retrievers of a run."""
        self._parts = parts
        self._rankers: dict[str, ScopeRanker] = {}
        self._similarities: dict[str, EncoderSimilarity] = {}

    @property
    def num_encoded(self) -> int:
        """Paragraphs and excerpts encoded so far."""
        return sum(item.num_encoded for item in self._similarities.values())

    def make(self, system: SystemName, retriever: str) -> Contender:
        """Return a system with a retriever: ``bm25``, ``iter-2``, or two of them fused, ``bm25+iter-2``.

        Raises:
            ConfigError: the run has no such retriever, or the system needs one encoder and it has none or two.
        """
        ranker = self._ranker(retriever)
        similarity = self._similarity(retriever, system) if needs_encoder(system) else None
        return Contender(system, retriever, ranker, similarity)

    def _ranker(self, name: str) -> ScopeRanker:
        if name not in self._rankers:
            first, *others = _parts_of(name, retriever_names(self._parts.config))
            if others:
                self._rankers[name] = FusedRanker([self._ranker(part) for part in (first, *others)])
            else:
                self._rankers[name] = RememberedRanker(self._parts.retriever(name))
        return self._rankers[name]

    def _similarity(self, name: str, system: SystemName) -> EncoderSimilarity:
        encoded = [part for part in _parts_of(name, retriever_names(self._parts.config)) if part != _BM25]
        if not encoded:
            raise ConfigError(f"system {system} needs an encoder, and {name} has none; give another retriever")
        if len(encoded) > 1:
            raise ConfigError(f"system {system} needs one encoder, and {name} has two; give one of {_BM25} and another")
        (part,) = encoded
        if part not in self._similarities:
            encoder = self._parts.serving_encoder(part)
            self._similarities[part] = EncoderSimilarity(encoder, query_alone=part == retriever_name(0))
        return self._similarities[part]


def _parts_of(name: str, known: Sequence[str]) -> tuple[str, ...]:
    """Return the retrievers that a name means: itself, or two that are fused (names may hold the sign themselves)."""
    if name in known:
        return (name,)
    for first in known:
        second = name.removeprefix(first + _FUSED)
        if second != name and second in known:
            if second == first:
                raise ConfigError(f"retriever {name}: {first} fused with itself; give it alone, or two that differ")
            return first, second
    raise ConfigError(
        f"retriever {name}: this run has no such retriever; it has {', '.join(known)}, or two of them fused, "
        f"such as {_BM25}{_FUSED}{known[-1]}"
    )


def _retrievers(parts: Parts, system: SystemName) -> Sequence[str]:
    """The retrievers of a system, the run's last one last."""
    base, last = retriever_name(0), retriever_name(parts.config.iterations)
    match system:
        case "rise":
            return (_BM25, f"{_BM25}{_FUSED}{last}")
        case "rarg":
            return retriever_names(parts.config)
        case "rarg+" | "rarg++":
            return (base, last)


def _with_evidence(question: Question, parts: Parts) -> Question:
    if question.evidence:
        return question
    found = [parts.corpus.passages[key] for key in parts.answer_bearing.get(question.id, ())]
    return replace(question, evidence=tuple(Evidence(item.document_id, item.text) for item in found))
