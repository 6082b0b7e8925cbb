"""How well a retriever finds what recorded queries should find: per-question values.

Owns the searching, and what counts as measured: a search that failed says nothing about the retriever, so its
question is left out and listed (a mean over its other queries would compare different queries); a search that
found nothing is measured. What a query should find is ``recorded.py``'s business, the measures are ``metrics``'.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from agentic_r.errors import ConfigError
from agentic_r.evaluation.recorded import JudgedQueries, mean_by_question
from agentic_r.metrics.retrieval import evaluate_run
from agentic_r.protocols import Retriever
from agentic_r.types import QueryText, SearchResult

__all__ = ["FailedSearch", "RetrievalOutcome", "evaluate_retriever", "summary_name"]

_BATCH = 256
_CUTOFF = re.compile(r"@(\d+)")


@dataclass(frozen=True, slots=True)
class FailedSearch:
    """A recorded query whose search did not run, and why."""

    query_id: str
    cause: str


@dataclass(frozen=True, slots=True)
class RetrievalOutcome:
    """Values by measure (as the summary names it) and question id, averaged over a question's queries.

    ``not_measured`` are the questions left out for a failed search, ``empty`` the queries that found nothing,
    ``warnings`` and ``rules`` what must be said beside the values.
    """

    per_question: Mapping[str, Mapping[str, float]]
    failed: tuple[FailedSearch, ...]
    not_measured: tuple[str, ...]
    empty: tuple[str, ...]
    warnings: tuple[str, ...]
    rules: tuple[str, ...]


def evaluate_retriever(
    retriever: Retriever,
    judged: JudgedQueries,
    *,
    measures: Sequence[str],
    k: int,
    drop_query_id_hits: bool = False,
    duplicates: Mapping[str, str] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> RetrievalOutcome:
    """Search every judged query and measure the rankings.

    Args:
        retriever: With the input format it was made for.
        judged: The frozen query set.
        measures: As ir-measures names them: ``R@5``, ``nDCG@10``.
        k: Passages a search; at least the deepest cutoff among the measures.
        drop_query_id_hits: Remove hits whose id is the query's own.
        duplicates: Passage id -> id of the first passage with the same text, for a second set of values.
        progress: Called with (queries done, queries in all).

    Raises:
        ConfigError: a measure is not known, or looks deeper than ``k``.
        ValueError: the retriever returned another number of results than it was given queries.
    """
    _check_depth(measures, k)
    results = _search(retriever, judged, k=k, progress=progress)
    failed = tuple(FailedSearch(query, result.cause) for query, result in results.items() if result.state == "failed")
    question_of = {query.id: query.question_id for query in judged.queries}
    not_measured = tuple(dict.fromkeys(question_of[item.query_id] for item in failed))
    measured = {query: result for query, result in results.items() if question_of[query] not in not_measured}
    evaluation = evaluate_run(
        {query: [(hit.passage_id, hit.value) for hit in result.passages] for query, result in measured.items()},
        {query: judged.qrels[query] for query in measured},
        measures,
        drop_query_id_hits=drop_query_id_hits,
        duplicates=duplicates,
    )
    return RetrievalOutcome(
        per_question={
            summary_name(measure): mean_by_question(values, question_of)
            for measure, values in evaluation.values.items()
        },
        failed=failed,
        not_measured=not_measured,
        empty=tuple(query for query, result in measured.items() if not result.passages),
        warnings=evaluation.warnings,
        rules=evaluation.rules,
    )


def summary_name(measure: str) -> str:
    """Return the summary's name of an ir-measures measure: ``R@5`` is ``recall@5``, ``nDCG@10`` is ``ndcg@10``."""
    for theirs, ours in (("R@", "recall@"), ("nDCG@", "ndcg@")):
        if measure.startswith(theirs):
            return ours + measure.removeprefix(theirs)
    return measure


def _check_depth(measures: Sequence[str], k: int) -> None:
    for measure in measures:
        found = _CUTOFF.search(measure)
        if found and int(found.group(1)) > k:
            raise ConfigError(
                f"measure {measure} looks at {found.group(1)} passages, but only {k} are searched; raise k"
            )


def _search(
    retriever: Retriever, judged: JudgedQueries, *, k: int, progress: Callable[[int, int], None] | None
) -> dict[str, SearchResult]:
    results: dict[str, SearchResult] = {}
    for start in range(0, len(judged.queries), _BATCH):
        batch = judged.queries[start : start + _BATCH]
        texts = [QueryText(item.query, judged.question_texts[item.question_id], item.history) for item in batch]
        found = retriever.search(texts, k=k)
        if len(found) != len(batch):
            raise ValueError(f"the retriever returned {len(found)} results for {len(batch)} queries")
        results |= {item.id: result for item, result in zip(batch, found, strict=True)}
        if progress is not None:
            progress(len(results), len(judged.queries))
    return results
