"""``summary.json``: what a run found, in one small file of a fixed shape.

Owns the shape, reading and writing. A measure that was not taken is null, never 0. Building it from
per-question values is ``measurements.py``'s business; printing and drawing are others'.
"""

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from agentic_r.artifacts.jsonl import write_text_atomic
from agentic_r.errors import DataError
from agentic_r.evaluation.intervals import TestKind
from agentic_r.evaluation.recorded import GoldKind

__all__ = [
    "CROSS_MEASURES",
    "MEASURES",
    "Comparison",
    "CrossCell",
    "Estimate",
    "LeftOut",
    "Notes",
    "Summary",
    "SummaryRow",
    "read_summary",
    "write_summary",
]

MEASURES = ("recall@5", "ndcg@10", "em", "search_turns", "scope_coverage")
CROSS_MEASURES = ("em", "search_turns")


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Estimate(_Part):
    """A value with its interval."""

    value: float
    low: float
    high: float

    @model_validator(mode="after")
    def _is_ordered(self) -> "Estimate":
        if not self.low <= self.value <= self.high:
            raise ValueError(f"expected low <= value <= high, found {self.low}, {self.value}, {self.high}")
        return self


class SummaryRow(_Part):
    """One line of the table: ``bm25``, ``base``, ``iter-1`` ...; null is "not measured"."""

    stage: str
    recall: Estimate | None = Field(alias="recall@5")
    ndcg: Estimate | None = Field(alias="ndcg@10")
    em: Estimate | None
    search_turns: Estimate | None
    scope_coverage: Estimate | None

    def measures(self) -> dict[str, Estimate | None]:
        """Return the row's estimates by their names in the file, in order."""
        values = (self.recall, self.ndcg, self.em, self.search_turns, self.scope_coverage)
        return dict(zip(MEASURES, values, strict=True))


class CrossCell(_Part):
    """One agent with one retriever."""

    agent: str
    retriever: str
    em: Estimate | None
    search_turns: Estimate | None


class Comparison(_Part):
    """A paired test of one measure: ``difference`` is ``new`` minus ``old`` over their common questions."""

    measure: str
    new: str
    old: str
    difference: float
    low: float
    high: float
    p_value: float
    test: TestKind
    num_questions: int
    num_unpaired: int
    wins: int
    losses: int

    @property
    def is_shown(self) -> bool:
        """Say whether a difference is shown: the interval leaves out 0 and p is below 0.05."""
        return (self.low > 0 or self.high < 0) and self.p_value < 0.05


class LeftOut(_Part):
    """What could not be measured in one row, why, and which ids (of questions, queries or trajectories)."""

    stage: str
    reason: str
    ids: tuple[str, ...]


class Notes(_Part):
    """How to read the numbers."""

    gold: GoldKind
    correctness: str
    answer_mode: Literal["default", "squad"]
    query_id_hits: Literal["kept", "dropped"]
    base_query_format: str | None
    base_query_formats: dict[str, dict[str, Estimate | None]]
    confidence: float
    bootstrap_samples: int
    unit: Literal["question"] = "question"
    num_questions: dict[str, dict[str, int]]
    other_measures: dict[str, dict[str, Estimate | None]]
    left_out: tuple[LeftOut, ...]


class Summary(_Part):
    """The whole file."""

    rows: tuple[SummaryRow, ...]
    cross: tuple[CrossCell, ...]
    seconds: float
    peak_memory_bytes: int | None
    seed: int
    notes: Notes
    comparisons: tuple[Comparison, ...]

    def to_json(self) -> str:
        """Return the file's text."""
        return self.model_dump_json(by_alias=True, indent=2) + "\n"

    def row(self, stage: str) -> SummaryRow | None:
        """Return the row of ``stage``, or None."""
        return next((row for row in self.rows if row.stage == stage), None)

    def comparison(self, *, measure: str, new: str, old: str) -> Comparison | None:
        """Return the paired test of ``new`` against ``old``, or None where it was not made."""
        found = (item for item in self.comparisons if (item.measure, item.new, item.old) == (measure, new, old))
        return next(found, None)


def write_summary(path: Path, summary: Summary) -> None:
    """Write the file whole or not at all."""
    write_text_atomic(path, summary.to_json())


def read_summary(path: Path) -> Summary:
    """Read a summary back.

    Raises:
        DataError: the file is missing or not a summary; names the place.
    """
    try:
        return Summary.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        raise DataError(f"{path}: no summary; finish the run first (agentic-r run CONFIG)") from None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(step) for step in first["loc"]) or "file"
        raise DataError(f"{path}: {place}: {first['msg']}; run the evaluation again") from None
