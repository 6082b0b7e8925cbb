"""Rankings against qrels, by ir-measures.

Owns what ir-measures leaves open: equal scores are ordered by passage id (ascending), a query without a ranking
counts as 0 and is named, hits that are the query's own id are kept unless asked otherwise, and passages of the same
text can be counted as one. Averaging and intervals belong to ``evaluation``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import ir_measures

from agentic_r.errors import ConfigError

__all__ = ["TIE_RULE", "Qrels", "Run", "RunEvaluation", "cutoff_of", "evaluate_run", "rank_hits", "same_text_name"]

Run = Mapping[str, Sequence[tuple[str, float]]]
Qrels = Mapping[str, Mapping[str, int]]

TIE_RULE = "higher score first, equal scores by passage id"


@dataclass(frozen=True, slots=True)
class RunEvaluation:
    """What was measured, and what must be said beside it.

    ``values``: measure -> query id -> value, for every query of the qrels. With ``duplicates``, each measure comes a
    second time under ``same_text_name(measure)``, with passages of the same text counted as one.
    ``missing``: queries of the qrels with no hit, counted as 0. ``not_judged``: queries of the run that the qrels do
    not know, left out. ``without_relevant``: queries whose qrels name nothing relevant, counted as 0.
    ``dropped``: (query ids) of hits removed as the query's own id; ``dropped_relevant`` those judged relevant.
    """

    values: Mapping[str, Mapping[str, float]]
    missing: tuple[str, ...]
    not_judged: tuple[str, ...]
    without_relevant: tuple[str, ...]
    dropped: tuple[str, ...]
    dropped_relevant: tuple[str, ...]
    rules: tuple[str, ...]

    @property
    def warnings(self) -> tuple[str, ...]:
        """One line for each thing that a reader of the values must know."""
        found = (
            ("queries without any hit, counted as 0", self.missing),
            ("queries of the run without qrels, left out", self.not_judged),
            ("queries whose qrels name nothing relevant, counted as 0", self.without_relevant),
            ("queries whose own id was removed though judged relevant", self.dropped_relevant),
        )
        return tuple(f"{len(ids)} {what}: {_listed(ids)}" for what, ids in found if ids)


def evaluate_run(
    run: Run,
    qrels: Qrels,
    measures: Sequence[str],
    *,
    drop_query_id_hits: bool = False,
    duplicates: Mapping[str, str] | None = None,
) -> RunEvaluation:
    """Measure a ranking for each query.

    Args:
        run: (passage id, score) by query id, in any order.
        qrels: Relevance (0 = not relevant) by query id and passage id.
        measures: Names as ir-measures writes them: ``R@5``, ``nDCG@10``, ``RR``.
        drop_query_id_hits: Remove hits whose id is the query's own (H18); kept by default.
        duplicates: Passage id -> id of the first passage with the same text, for the second set of values.

    Raises:
        ConfigError: a measure is not known or cannot be computed as written.
        ValueError: a query lists a passage twice, or a score is not a number.
    """
    parsed = {name: _parse(name) for name in measures}
    ranked = {query: rank_hits(hits) for query, hits in run.items() if query in qrels}
    dropped = tuple(query for query, ids in ranked.items() if query in ids) if drop_query_id_hits else ()
    for query in dropped:
        ranked[query] = [passage for passage in ranked[query] if passage != query]
    values = _measure(ranked, qrels, parsed)
    rules = [
        TIE_RULE,
        "hits with the query's own id removed" if drop_query_id_hits else "hits with the query's own id kept",
    ]
    if duplicates is not None:
        merged = _measure(_merge_run(ranked, duplicates), _merge_qrels(qrels, duplicates), parsed)
        values |= {same_text_name(name): by_query for name, by_query in merged.items()}
        rules.append("values marked 'same text' count passages of the same text as one")
    return RunEvaluation(
        values=values,
        missing=tuple(query for query in qrels if not ranked.get(query)),
        not_judged=tuple(query for query in run if query not in qrels),
        without_relevant=tuple(
            query for query, judged in qrels.items() if not any(grade > 0 for grade in judged.values())
        ),
        dropped=dropped,
        dropped_relevant=tuple(query for query in dropped if qrels[query].get(query, 0) > 0),
        rules=tuple(rules),
    )


def rank_hits(hits: Sequence[tuple[str, float]]) -> list[str]:
    """Return passage ids by ``TIE_RULE``.

    Raises:
        ValueError: a passage comes twice, or a score is not a number.
    """
    ids = {passage for passage, _ in hits}
    if len(ids) != len(hits):
        raise ValueError("a ranking lists a passage twice")
    for passage, value in hits:
        if value != value:  # only NaN differs from itself
            raise ValueError(f"the score of passage {passage!r} is not a number")
    return [passage for passage, _ in sorted(hits, key=lambda hit: (-hit[1], hit[0]))]


def same_text_name(measure: str) -> str:
    """Return the name of ``measure`` where passages of the same text count as one."""
    return f"{measure} (same text)"


def cutoff_of(name: str) -> int | None:
    """Return how deep a measure looks; None where it looks at whole rankings.

    Raises:
        ConfigError: it is not known.
    """
    cutoff = _parse(name).params.get("cutoff")
    return None if cutoff is None else int(cutoff)


def _parse(name: str) -> ir_measures.Measure:
    try:
        measure = ir_measures.parse_measure(name)
        measure.validate_params()  # type: ignore[no-untyped-call]  # the library does not type it
    except NameError:
        raise ConfigError(f"measure {name!r} is not known; use names such as R@5, nDCG@10, RR, P@5, AP") from None
    except (ValueError, AssertionError, SyntaxError) as error:
        reason = " ".join(str(error).split())
        raise ConfigError(f"measure {name!r} cannot be read ({reason}); write it like R@5 or nDCG@10") from None
    if "cutoff" in measure.params and measure.params["cutoff"] < 1:
        raise ConfigError(f"measure {name!r} has a cutoff below 1; write it like R@5")
    return measure


def _measure(
    ranked: Mapping[str, Sequence[str]], qrels: Qrels, measures: Mapping[str, ir_measures.Measure]
) -> dict[str, dict[str, float]]:
    """Hand over strictly falling whole scores, so that no tie and no rounding is left to the library."""
    judged = {query: dict(grades) for query, grades in qrels.items() if grades}
    scored = {
        query: {passage: float(-place) for place, passage in enumerate(ids)}
        for query, ids in ranked.items()
        if ids and query in judged
    }
    values: dict[str, dict[str, float]] = {}
    for name, measure in measures.items():
        try:
            made = {item.query_id: float(item.value) for item in ir_measures.iter_calc([measure], judged, scored)}
        except (ValueError, AssertionError):
            raise ConfigError(
                f"measure {name!r} cannot be computed by the installed packages; choose another"
            ) from None
        values[name] = {query: made.get(query, 0.0) for query in qrels}
    return values


def _merge_run(ranked: Mapping[str, Sequence[str]], duplicates: Mapping[str, str]) -> dict[str, list[str]]:
    return {
        query: list(dict.fromkeys(duplicates.get(passage, passage) for passage in ids)) for query, ids in ranked.items()
    }


def _merge_qrels(qrels: Qrels, duplicates: Mapping[str, str]) -> dict[str, dict[str, int]]:
    merged: dict[str, dict[str, int]] = {}
    for query, judged in qrels.items():
        grades = merged.setdefault(query, {})
        for passage, grade in judged.items():
            first = duplicates.get(passage, passage)
            grades[first] = max(grade, grades.get(first, grade))
    return merged


def _listed(ids: Sequence[str], *, limit: int = 5) -> str:
    more = f" and {len(ids) - limit} more" if len(ids) > limit else ""
    return ", ".join(ids[:limit]) + more
