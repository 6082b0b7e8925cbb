"""``report.html``: one page that opens offline and shows everything a run found.

Owns the page's parts and their order; the template owns its look. Nothing is fetched: style and charts are inline,
there is no script. All text is escaped by the template. A part that was not measured says so.
"""

from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from agentic_r.artifacts.jsonl import write_text_atomic
from agentic_r.evaluation import wording
from agentic_r.evaluation.coverage import coverage_tables
from agentic_r.evaluation.findings import find
from agentic_r.evaluation.page import Figure, curve_figure, page_environment
from agentic_r.evaluation.report_parts import ReportInput, WorkspaceCoverage
from agentic_r.evaluation.summary import CROSS_MEASURES, MEASURES, CrossCell, Estimate, Summary, SummaryRow
from agentic_r.evaluation.svg import NEUTRAL, NUM_COLOURS, Mark, bar_chart, interval_chart
from agentic_r.evaluation.table import measure_header, reading_notes

__all__ = ["render_report", "write_report"]

_DRAWN_SYSTEM = "rarg"  # the one that every retriever of a run takes part in
_MOST_HEAT = 42  # more colour would leave too little contrast for the text upon it


@dataclass(frozen=True, slots=True)
class _HeatCell:
    """``heat`` is the share of colour in the cell, in percent; None where the cell was not measured."""

    estimate: Estimate | None
    heat: int | None


@dataclass(frozen=True, slots=True)
class _HeatTable:
    title: str
    retrievers: tuple[str, ...]
    rows: tuple[tuple[str, tuple[_HeatCell, ...]], ...]


def write_report(path: Path, report: ReportInput) -> None:
    """Write the page whole or not at all."""
    write_text_atomic(path, render_report(report))


def render_report(report: ReportInput) -> str:
    """Return the page's HTML."""
    summary = report.summary
    page = page_environment().get_template("report.html")
    html = page.render(
        report=report,
        summary=summary,
        findings=find(summary),
        headers=[measure_header(name, summary) for name in MEASURES],
        notes=reading_notes(summary),
        intervals=[_interval_figure(name, summary) for name in MEASURES],
        heat_tables=[_heat_table(name, summary) for name in CROSS_MEASURES] if summary.cross else [],
        coverage=[_coverage_figure(item) for item in report.coverage if item.system == _DRAWN_SYSTEM],
        coverage_tables=coverage_tables(report.coverage),
        agent_figures=[curve_figure(chart) for chart in report.agent_charts],
        retriever_figures=[curve_figure(chart) for chart in report.retriever_charts],
        relevance=[Figure("relevance", Markup(bar_chart(item.relevance, title="relevance"))) for item in report.labels],
    )
    return html.encode("utf-8", "backslashreplace").decode("utf-8")  # a lone surrogate is shown, not fatal


def _interval_figure(measure: str, summary: Summary) -> Figure:
    title = measure_header(measure, summary)
    marks = [mark for row in summary.rows if (mark := _mark(row, measure)) is not None]
    high = None if measure == "search_turns" else 1.0
    return Figure(title, Markup(interval_chart(marks, title=title, high=high)), note=_missing_note(summary, measure))


def _mark(row: SummaryRow, measure: str) -> Mark | None:
    estimate = row.measures()[measure]
    if estimate is None:
        return None
    return Mark(
        name=wording.stage_text(row.stage),
        value=estimate.value,
        low=estimate.low,
        high=estimate.high,
        colour=_stage_colour(row.stage),
    )


def _stage_colour(stage: str) -> int:
    number = stage.removeprefix("iter-")
    return (int(number) - 1) % NUM_COLOURS if stage.startswith("iter-") and number.isdigit() else NEUTRAL


def _missing_note(summary: Summary, measure: str) -> str:
    missing = [wording.stage_text(row.stage) for row in summary.rows if row.measures()[measure] is None]
    measured = len(missing) < len(summary.rows)
    return f"{wording.NOT_MEASURED}: {', '.join(missing)}" if missing and measured else ""


def _heat_table(measure: str, summary: Summary) -> _HeatTable:
    cells = {(cell.agent, cell.retriever): _cross_estimate(cell, measure) for cell in summary.cross}
    most = max((item.value for item in cells.values() if item is not None), default=0.0)
    agents = tuple(dict.fromkeys(cell.agent for cell in summary.cross))
    retrievers = tuple(dict.fromkeys(cell.retriever for cell in summary.cross))
    rows = tuple(
        (agent, tuple(_heat_cell(cells.get((agent, retriever)), most) for retriever in retrievers)) for agent in agents
    )
    return _HeatTable(title=measure_header(measure, summary), retrievers=retrievers, rows=rows)


def _cross_estimate(cell: CrossCell, measure: str) -> Estimate | None:
    return cell.em if measure == "em" else cell.search_turns


def _heat_cell(estimate: Estimate | None, most: float) -> _HeatCell:
    if estimate is None:
        return _HeatCell(None, None)
    return _HeatCell(estimate, round(_MOST_HEAT * estimate.value / most) if most > 0 else 0)


def _coverage_figure(coverage: WorkspaceCoverage) -> Figure:
    marks = [
        Mark(step.name, step.share.value, step.share.low, step.share.high, _stage_colour(coverage.retriever))
        for step in coverage.steps
        if step.share is not None
    ]
    missing = [step.name for step in coverage.steps if step.share is None]
    notes = [wording.count_noun(coverage.num_questions, "question")]
    if missing and marks:
        notes.append(f"{wording.NOT_MEASURED}: {', '.join(missing)}")
    title = f"{wording.stage_text(coverage.retriever)} as scope ranker"
    return Figure(title, Markup(interval_chart(marks, title=title, high=1.0)), note="; ".join(notes))
