"""The workspace's tables for the terminal: a block a system, a line a measure, a column a retriever."""

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from agentic_r.evaluation.coverage import CoverageTable, coverage_tables
from agentic_r.evaluation.report_parts import WorkspaceCoverage
from agentic_r.evaluation.summary import Comparison
from agentic_r.evaluation.wording import count_noun, difference_text, estimate_text, p_text, stage_text

__all__ = ["coverage_text"]


def coverage_text(coverage: Sequence[WorkspaceCoverage], comparisons: Sequence[Comparison]) -> RenderableType:
    """Return the tables, and below them the differences that are shown (interval without 0 and p below 0.05)."""
    shown = [item for item in comparisons if item.is_shown]
    lines = [
        f"{item.measure}: {item.new} against {item.old} {difference_text(item)}, {p_text(item.p_value)}"
        for item in shown
    ]
    num_compared = count_noun(len(comparisons), "paired comparison")
    head = f"{len(shown)} of {num_compared} show a difference (p is not corrected for their number)"
    return Group(*(_table(item) for item in coverage_tables(coverage)), Text("\n".join([head, *lines])))


def _table(system: CoverageTable) -> Table:
    table = Table(title=system.system, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("measure")
    for row in system.rows:
        table.add_column(f"{stage_text(row.retriever)}\n({count_noun(row.num_questions, 'question')})", justify="right")
    for place, measure in enumerate(system.measures):
        table.add_row(measure, *(estimate_text(row.steps[place].share) for row in system.rows))
    tools = list(dict.fromkeys(use.tool for row in system.rows for use in row.costs))
    for tool in tools:
        table.add_row(f"{tool}: calls, characters, ms", *(_cost(row, tool) for row in system.rows))
    return table


def _cost(row: WorkspaceCoverage, tool: str) -> str:
    use = next((item for item in row.costs if item.tool == tool), None)
    return "none" if use is None else f"{use.num_calls:.1f}, {use.characters:,.0f}, {1000 * use.seconds:.1f}"
