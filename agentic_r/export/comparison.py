"""Two sets of vectors for the same texts, as numbers: differences, cosines, norms, and agreement in ranking.

Pure but for asking the artefact for its vectors. What is compared is ``probes.py``'s, what the numbers mean for the
export ``parity.py``'s. Legend: N texts, Q queries, P passages, D dimensions.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from agentic_r.errors import ToolFailure
from agentic_r.export.artefacts import Artefact
from agentic_r.export.diagnosis import cosines
from agentic_r.export.parity_report import ArtefactParity, KindParity, Ranking, Tolerance
from agentic_r.export.probes import Probe, Probes
from agentic_r.protocols import Vectors

__all__ = ["Compared", "compare_artefact"]

_TOP = 10
_LEAST_PASSAGES = 3  # with fewer every ranking agrees


@dataclass(frozen=True, slots=True)
class Compared:
    """An artefact's parity (causes not yet looked for), the probes that differ, and the rows found, by kind."""

    parity: ArtefactParity
    unequal: tuple[Probe, ...]
    found: Mapping[str, Vectors]


def compare_artefact(
    artefact: Artefact, probes: Probes, tolerance: Tolerance, *, ranked_as: Probes | None = None
) -> Compared:
    """Ask an artefact for every probe's vectors and compare them.

    Args:
        artefact: What is compared with the encoder.
        probes: Texts and the encoder's vectors.
        tolerance: What counts as equal.
        ranked_as: Whose rankings are compared with the artefact's; by default those of ``probes``. Shorter vectors are
            ranked against the whole ones, which shows what is lost by shortening.

    Returns:
        Worst values, and for each kind of text what was found; a refusal is recorded with its cause.
    """
    kinds: list[KindParity] = []
    unequal: list[Probe] = []
    found: dict[str, Vectors] = {}
    for probe in probes.all:
        try:
            found[probe.kind] = artefact.encode(probe.texts, probe.side)
        except ToolFailure as failure:
            kinds.append(_refusal(probe, str(failure)))
            continue
        kinds.append(_compare(probe, found[probe.kind], tolerance))
        if not kinds[-1].equal:
            unequal.append(probe)
    ranking = _ranking(ranked_as or probes, found)
    ranks_agree = ranking is None or tolerance.min_overlap is None or ranking.overlap >= tolerance.min_overlap
    compared = [kind for kind in kinds if kind.num_refused == 0]
    parity = ArtefactParity(
        name=artefact.name,
        equal=all(kind.equal for kind in kinds) and ranks_agree and bool(compared),
        tolerance=tolerance,
        max_difference=_extreme([kind.max_difference for kind in compared], max),
        min_cosine=_extreme([kind.min_cosine for kind in compared], min),
        ranking=ranking,
        kinds=tuple(kinds),
        differences=(),
    )
    return Compared(parity, tuple(unequal), found)


def _compare(probe: Probe, found_ND: Vectors, tolerance: Tolerance) -> KindParity:
    norms_N = np.linalg.norm(found_ND, axis=1)
    difference = cosine = None
    if found_ND.shape == probe.expected.shape and bool(np.isfinite(found_ND).all()):
        difference = float(np.abs(found_ND - probe.expected).max())
        cosine = float(cosines(found_ND, probe.expected).min())
    return KindParity(
        kind=probe.kind,
        num_texts=len(probe.texts),
        max_difference=difference,
        min_cosine=cosine,
        min_norm=float(norms_N.min()),
        max_norm=float(norms_N.max()),
        equal=bool((np.abs(norms_N - 1) <= tolerance.max_norm_error).all()) and tolerance.holds(difference, cosine),
    )


def _refusal(probe: Probe, cause: str) -> KindParity:
    return KindParity(
        kind=probe.kind,
        num_texts=len(probe.texts),
        num_refused=len(probe.texts),
        refusal=cause,
        max_difference=None,
        min_cosine=None,
        min_norm=None,
        max_norm=None,
        equal=probe.may_be_refused,
    )


def _ranking(probes: Probes, found: Mapping[str, Vectors]) -> Ranking | None:
    """Rank the run's passages for the run's queries with both; None where there are too few, or wrong vectors."""
    queries, passages = probes.of_the_run("query"), probes.of_the_run("passage")
    if queries is None or passages is None or len(passages.texts) < _LEAST_PASSAGES:
        return None
    if queries.kind not in found or passages.kind not in found:
        return None
    queries_QD, passages_PD = found[queries.kind], found[passages.kind]
    if queries_QD.shape[1] != passages_PD.shape[1]:
        return None
    depth = min(_TOP, len(passages.texts) // 2)
    expected = _best(queries.expected @ passages.expected.T, depth)
    seen = _best(queries_QD @ passages_PD.T, depth)
    same = [len(set(left) & set(right)) / depth for left, right in zip(expected, seen, strict=True)]
    return Ranking(
        num_queries=len(queries.texts),
        num_passages=len(passages.texts),
        depth=depth,
        overlap=sum(same) / len(same),
        same_first=sum(left[0] == right[0] for left, right in zip(expected, seen, strict=True)) / len(same),
    )


def _best(similarities_QP: Vectors, depth: int) -> list[list[int]]:
    """The best passages of each query, equal ones in their order."""
    order_QP = np.argsort(-np.round(similarities_QP.astype(np.float64), 6), axis=1, kind="stable")
    rows: list[list[int]] = order_QP[:, :depth].tolist()
    return rows


def _extreme(values: Sequence[float | None], choose: Callable[[list[float]], float]) -> float | None:
    """Return the worst of them; None where one could not be computed."""
    known = [value for value in values if value is not None]
    return choose(known) if known and len(known) == len(values) else None
