"""The result table, one content in two dresses: for the terminal (at most 100 columns) and as markdown.

Owns which columns there are and which notes must stand below them for the numbers to be read rightly.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from agentic_r.evaluation.recorded import JUDGING_RULE
from agentic_r.evaluation.summary import MEASURES, Summary
from agentic_r.evaluation.wording import count_noun, estimate_text, stage_text
from agentic_r.metrics.retrieval import TIE_RULE

__all__ = ["Grid", "cross_grid", "markdown_table", "measure_header", "reading_notes", "result_grid", "terminal_table"]

_FEW_QUESTIONS = 10
_HEADERS = {"recall@5": "recall@5", "ndcg@10": "nDCG@10", "em": "EM", "search_turns": "search turns"}
_RETRIEVAL = MEASURES[:2]


@dataclass(frozen=True, slots=True)
class Grid:
    """A table as text: one header a column, one cell a column in each row."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def result_grid(summary: Summary) -> Grid:
    """Return the main table: one row a stage, one column a measure."""
    rows = [(_short(row.stage), *(estimate_text(item) for item in row.measures().values())) for row in summary.rows]
    return Grid("Held-out questions", ("stage", *(measure_header(name, summary) for name in MEASURES)), tuple(rows))


def cross_grid(summary: Summary) -> Grid:
    """Return agent x retriever, one cell of it a row."""
    rows = [
        (cell.agent, _short(cell.retriever), estimate_text(cell.em), estimate_text(cell.search_turns))
        for cell in summary.cross
    ]
    return Grid("Agent x retriever", ("agent", "retriever", measure_header("em", summary), "search turns"), tuple(rows))


def reading_notes(summary: Summary) -> tuple[str, ...]:
    """Return the sentences that a reader of the numbers needs."""
    notes = summary.notes
    lines = [
        f"Means over questions with {notes.confidence:.0%} percentile bootstrap intervals over questions "
        f"({notes.bootstrap_samples} samples, seed {summary.seed}); {_question_counts(summary)}",
        _correctness_note(summary),
        _retrieval_note(summary),
    ]
    if notes.base_query_format is not None:
        tried = ", ".join(
            f"{name} recall@5 {estimate_text(values.get('recall@5'))}"
            for name, values in notes.base_query_formats.items()
        )
        lines.append(
            f"Base was measured with each query format ({tried}); the better one counts: {notes.base_query_format}."
        )
    if any(item is not None and item.low == item.high for row in summary.rows for item in row.measures().values()):
        lines.append("An interval without width means that all questions had the same value, not that it is certain.")
    lines += [
        f"Left out of {stage_text(item.stage)}: {len(item.ids)} ({item.reason}): {_listed(item.ids)}."
        for item in notes.left_out
    ]
    return tuple(lines)


def terminal_table(summary: Summary) -> RenderableType:
    """Return the tables and notes for a rich console."""
    parts: list[RenderableType] = [_rich_table(result_grid(summary))]
    if summary.cross:
        parts.append(_rich_table(cross_grid(summary)))
    parts.extend(Text(line, style="dim") for line in reading_notes(summary))
    return Group(*parts)


def markdown_table(summary: Summary) -> str:
    """Return the tables and notes as markdown."""
    blocks = [_markdown(result_grid(summary))]
    if summary.cross:
        blocks.append(_markdown(cross_grid(summary)))
    blocks.append("\n".join(f"- {line}" for line in reading_notes(summary)))
    return "\n\n".join(blocks) + "\n"


def _short(stage: str) -> str:
    """Return the stage's own name, as its folder has it: five intervals leave no room for more."""
    return "BM25" if stage == "bm25" else stage


def measure_header(measure: str, summary: Summary) -> str:
    """Return the name of a measure's column; it says what counts as found and as correct."""
    if measure in _RETRIEVAL and summary.notes.gold != "gold":
        return f"{_HEADERS[measure]} ({summary.notes.gold})"
    if measure == "em" and summary.notes.correctness != "exact match":
        return f"correct ({summary.notes.correctness.removeprefix('token ')})"
    return _HEADERS.get(measure, measure.replace("_", " "))


def _question_counts(summary: Summary) -> str:
    counts = [count for sizes in summary.notes.num_questions.values() for count in sizes.values() if count]
    if not counts:
        return "no question was measured."
    low, high = min(counts), max(counts)
    shown = count_noun(low, "question") if low == high else f"{low} to {high} questions a value"
    if low < _FEW_QUESTIONS:
        return f"{shown}; with fewer than {_FEW_QUESTIONS} questions these intervals are too narrow."
    return f"{shown}."


def _correctness_note(summary: Summary) -> str:
    mode = ", in squad mode, for comparison with published values" if summary.notes.answer_mode == "squad" else ""
    return f"An answer counts as correct by {summary.notes.correctness}{mode}."


def _retrieval_note(summary: Summary) -> str:
    kinds = {
        "gold": "Recall and nDCG are over gold passages",
        "answer-bearing": "No gold passages are known: recall and nDCG are over answer-bearing passages",
        "mixed": "Recall and nDCG are over gold passages, or over answer-bearing ones where a question has no gold",
    }
    rule = "all queries of a question are averaged first" if summary.notes.gold == "answer-bearing" else JUDGING_RULE
    return (
        f"{kinds[summary.notes.gold]}, on one frozen set of recorded queries: {rule}. Ranking: {TIE_RULE}; "
        f"hits with the query's own id are {summary.notes.query_id_hits}."
    )


def _listed(ids: Sequence[str]) -> str:
    shown = ", ".join(ids[:5])
    return f"{shown} and {len(ids) - 5} more" if len(ids) > 5 else shown


def _rich_table(grid: Grid) -> Table:
    table = Table(title=grid.title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for place, name in enumerate(grid.header):
        table.add_column(name, justify="left" if place == 0 else "right", overflow="fold")
    for row in grid.rows:
        table.add_row(*row)
    return table


def _markdown(grid: Grid) -> str:
    lines = [grid.header, tuple("---" for _ in grid.header), *grid.rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
