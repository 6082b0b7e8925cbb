"""Replay: a recorded trace done again, without a model, against another retriever, order or budget.

Every call is made as it was asked. What a new retriever ranks, a new order scans first and a new budget shows is what
comes out; which questions to ask next is not decided anew: that is what a model, or the script, would do. So a replay
tells which evidence *would have been shown* to an agent that acts as recorded.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from agentic_r.artifacts.fingerprint import fingerprint_value, generator_seed
from agentic_r.errors import ToolFailure
from agentic_r.types import QueryText, ScoredDocument
from agentic_r.workspace.calls import ToolCall
from agentic_r.workspace.scope import ScopeRanker
from agentic_r.workspace.session import Session, Tools
from agentic_r.workspace.trace import RankedScope, Trace

__all__ = ["ORDERS", "Change", "Order", "RecordedRanker", "ReorderedRanker", "replay_trace"]

Order = Literal["ranked", "name", "random"]
ORDERS: tuple[Order, ...] = ("ranked", "name", "random")


@dataclass(frozen=True, slots=True)
class Change:
    """What a replay does otherwise. ``budget`` is characters of output for a question, all calls together.

    ``retriever`` is the name under which the new trace is kept.
    """

    retriever: str
    order: Order = "ranked"
    budget: int | None = None
    seed: int = 0


class RecordedRanker:
    """The rankings of a trace, by query (``scope.ScopeRanker``): to replay it with its own retriever.

    Scores were not recorded; the places stand for them, negative.
    """

    def __init__(self, trace: Trace) -> None:
        self._fingerprint = trace.ranker
        self._rankings = {
            scope.query: [ScoredDocument(key, -float(place)) for place, key in enumerate(scope.document_ids)]
            for scope in trace.scopes
        }

    @property
    def fingerprint(self) -> str:
        """That of the ranker which was recorded."""
        return self._fingerprint

    def rank_documents(self, query: QueryText, *, k: int) -> list[ScoredDocument]:
        """Return the recorded ranking. Raises ToolFailure for a query whose ranking was not recorded."""
        if query not in self._rankings:
            raise ToolFailure("this ranking was not recorded")
        return self._rankings[query][:k]


class ReorderedRanker:
    """The same documents in another order (``scope.ScopeRanker``): what order alone is worth."""

    def __init__(self, ranker: ScopeRanker, *, order: Order, name: Callable[[str], str], seed: int) -> None:
        """Order by file name, or at random by ``seed`` and query; ``ranked`` leaves things as they are."""
        self._ranker = ranker
        self._order: Order = order
        self._name = name
        self._seed = seed

    @property
    def fingerprint(self) -> str:
        """Hash of the ranker inside and of the order."""
        if self._order == "ranked":
            return self._ranker.fingerprint
        return fingerprint_value([self._ranker.fingerprint, self._order, self._seed])

    def rank_documents(self, query: QueryText, *, k: int) -> list[ScoredDocument]:
        """Return the ranker's first ``k`` documents in the other order. Raises ToolFailure when it cannot."""
        ranked = self._ranker.rank_documents(query, k=k)
        match self._order:
            case "ranked":
                return ranked
            case "name":
                return sorted(ranked, key=lambda document: self._name(document.document_id))
            case "random":
                drawn = list(ranked)
                random.Random(generator_seed(self._seed, query.question, query.query)).shuffle(drawn)
                return drawn


def replay_trace(trace: Trace, tools: Tools, *, change: Change) -> Trace:
    """Make the calls of a trace again with other tools.

    Args:
        trace: What was recorded.
        tools: The store must be the recorded one; ranker and similarity may be others.
        change: Order and budget. Each call's share of the budget is scaled with it, and gets no more than what the
            calls before it left.

    Returns:
        The new trace; a read of a file outside the new workspace is skipped in it, with the cause.

    Raises:
        FingerprintError: the ranker knows a document that the store does not have.
    """
    ranker = ReorderedRanker(tools.ranker, order=change.order, name=tools.store.name, seed=change.seed)
    session = Session(replace(tools, ranker=ranker), is_confined=trace.system == "rise")
    budget = left = change.budget or trace.max_output_characters
    calls: list[ToolCall] = []
    for call in trace.calls:
        share = call.input.max_characters * budget // trace.max_output_characters
        calls.append(_without_blame(session.run(replace(call.input, max_characters=min(share, left)))))
        left -= len(calls[-1].output)
    ripgrep = tools.scanner.ripgrep_version
    similarity = tools.similarity.fingerprint if tools.similarity is not None else ""
    return Trace(
        system=trace.system,
        retriever=change.retriever,
        question_id=trace.question_id,
        identity=fingerprint_value(["replay", trace.identity, ranker.fingerprint, similarity, budget, ripgrep]),
        ranker=ranker.fingerprint,
        similarity=similarity,
        ripgrep=ripgrep,
        max_output_characters=budget,
        scopes=tuple(RankedScope.of(scope) for scope in session.scopes),
        calls=tuple(calls),
    )


def _without_blame(call: ToolCall) -> ToolCall:
    """A read that only the recorded workspace allowed shows nothing here; it is no failure of the new one."""
    return replace(call, state="skipped") if call.input.tool == "read" and call.state == "refused" else call
