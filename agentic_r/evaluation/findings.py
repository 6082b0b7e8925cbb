"""What a summary shows, in sentences that are true whichever way it went.

Owns when a difference counts as shown (``Comparison.is_shown``) turned into words. The first finding is the headline.
"""

from dataclasses import dataclass
from typing import Literal

from agentic_r.evaluation.measurements import cell_name
from agentic_r.evaluation.summary import Comparison, Estimate, Summary
from agentic_r.evaluation.wording import count_noun, difference_text, number_text, p_text, stage_text

__all__ = ["Finding", "find", "headline"]

Direction = Literal["more", "less", "none", "not measured"]


@dataclass(frozen=True, slots=True)
class Finding:
    """A claim with the numbers behind it; ``direction`` says which way the measure went, not whether that is good."""

    claim: str
    numbers: str
    direction: Direction

    @property
    def text(self) -> str:
        """The whole sentence."""
        return f"{self.claim}: {self.numbers}." if self.numbers else f"{self.claim}."


@dataclass(frozen=True, slots=True)
class _Verbs:
    label: str
    more: str
    less: str


@dataclass(frozen=True, slots=True)
class _Sides:
    """The two sides in words, after what they have in common ("with the same agent, ")."""

    new: str
    old: str
    common: str = ""


def headline(summary: Summary) -> str:
    """Return the one sentence that stands above everything else."""
    return find(summary)[0].text


def find(summary: Summary) -> tuple[Finding, ...]:
    """Compare the last iteration with base and BM25, and agents and retrievers with one another."""
    last = next((row.stage for row in reversed(summary.rows) if row.stage.startswith("iter-")), None)
    if last is None:
        return (Finding("No trained retriever was measured, so nothing is claimed", "", "not measured"),)
    findings = [_row_finding(summary, "recall@5", new=last, old=old) for old in ("base", "bm25")]
    findings += [
        _row_finding(summary, measure, new=last, old="base") for measure in ("scope_coverage", "em", "search_turns")
    ]
    return (*findings, *_cross_findings(summary))


def _verbs(measure: str, summary: Summary) -> _Verbs:
    kind = {"gold": "gold", "answer-bearing": "answer-bearing", "mixed": "gold or answer-bearing"}[summary.notes.gold]
    into_scope = "gold documents into the workspace's scope than"
    return {
        "recall@5": _Verbs(
            "recall@5", f"finds more of the {kind} passages than", f"finds fewer of the {kind} passages than"
        ),
        "scope_coverage": _Verbs("scope coverage", f"brings more {into_scope}", f"brings fewer {into_scope}"),
        "em": _Verbs("share correct", "leads to more correct answers than", "leads to fewer correct answers than"),
        "search_turns": _Verbs("search turns", "searches more often than", "searches less often than"),
    }[measure]


def _row_finding(summary: Summary, measure: str, *, new: str, old: str) -> Finding:
    rows = [summary.row(stage) for stage in (old, new)]
    values = [row.measures()[measure] if row else None for row in rows]
    comparison = summary.comparison(measure=measure, new=new, old=old)
    sides = _Sides(new=stage_text(new), old=stage_text(old))
    return _finding(_verbs(measure, summary), sides, comparison, old=values[0], new=values[1])


def _cross_findings(summary: Summary) -> list[Finding]:
    """Compare the last agent with first and last retriever, and the first and last agent with the last retriever."""
    agents = list(dict.fromkeys(cell.agent for cell in summary.cross))
    retrievers = list(dict.fromkeys(cell.retriever for cell in summary.cross))
    if not summary.cross:
        return []
    agent, retriever = agents[-1], retrievers[-1]
    by_retriever = _Sides(
        common=f"with the same agent ({stage_text(agent)}), ",
        new=f"the retriever of {stage_text(retriever)}",
        old=f"that of {stage_text(retrievers[0])}",
    )
    by_agent = _Sides(
        common=f"with the same retriever ({stage_text(retriever)}), ",
        new=f"the agent of {stage_text(agent)}",
        old=f"that of {stage_text(agents[0])}",
    )
    pairs = ((by_retriever, (agent, retrievers[0])), (by_agent, (agents[0], retriever)))
    return [
        _cross_finding(summary, sides, new=(agent, retriever), old=old)
        for sides, old in pairs
        if old != (agent, retriever)
    ]


def _cross_finding(summary: Summary, sides: _Sides, *, new: tuple[str, str], old: tuple[str, str]) -> Finding:
    em = {(cell.agent, cell.retriever): cell.em for cell in summary.cross}
    names = [cell_name(agent=agent, retriever=retriever) for agent, retriever in (new, old)]
    comparison = summary.comparison(measure="em", new=names[0], old=names[1])
    return _finding(_verbs("em", summary), sides, comparison, old=em.get(old), new=em.get(new))


def _finding(
    verbs: _Verbs, sides: _Sides, comparison: Comparison | None, *, old: Estimate | None, new: Estimate | None
) -> Finding:
    if comparison is None or old is None or new is None:
        claim = f"{sides.common}{verbs.label} was not measured for both {sides.new} and {sides.old}"
        return Finding(_capital(claim), "", "not measured")
    numbers = (
        f"{verbs.label} {number_text(old.value)} → {number_text(new.value)}, difference {difference_text(comparison)}, "
        f"{p_text(comparison.p_value)}, {count_noun(comparison.num_questions, 'question')}"
    )
    if not comparison.is_shown:
        claim = f"{sides.common}no difference shown between {sides.new} and {sides.old}"
        return Finding(_capital(claim), numbers, "none")
    is_more = comparison.difference > 0
    claim = f"{sides.common}{sides.new} {verbs.more if is_more else verbs.less} {sides.old}"
    return Finding(_capital(claim), numbers, "more" if is_more else "less")


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
