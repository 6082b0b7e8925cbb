"""What a parity measurement says: ``parity.json`` as values, its page, and its sentences.

Imports nothing heavy; how the numbers come about is ``comparison.py``'s.
"""

from importlib import resources

from jinja2 import Environment, StrictUndefined
from pydantic import BaseModel, ConfigDict

__all__ = [
    "PAGE_FILE",
    "REPORT_FILE",
    "ArtefactParity",
    "KindParity",
    "ParityReport",
    "Ranking",
    "Tolerance",
    "render_page",
]

REPORT_FILE, PAGE_FILE = "parity.json", "parity.html"


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Tolerance(_Part):
    """What counts as equal; None where a quantity is shown but not judged."""

    max_difference: float | None
    min_cosine: float | None
    max_norm_error: float
    min_overlap: float | None

    def holds(self, difference: float | None, cosine: float | None) -> bool:
        """Whether a difference of components and a cosine are within it; unknown ones are not."""
        if difference is None or cosine is None:
            return False
        return (self.max_difference is None or difference <= self.max_difference) and (
            self.min_cosine is None or cosine >= self.min_cosine
        )

    def text(self) -> str:
        """All of it in one line."""
        parts = [
            f"difference up to {self.max_difference:g}" if self.max_difference is not None else "",
            f"cosine from {self.min_cosine:g}" if self.min_cosine is not None else "",
            f"norm within {self.max_norm_error:g} of 1",
            f"overlap from {self.min_overlap:g}" if self.min_overlap is not None else "",
        ]
        return ", ".join(part for part in parts if part)


class KindParity(_Part):
    """How one kind of text compares: largest difference of a component, smallest cosine, norms that were found.

    A server may have refused the texts; ``refusal`` says with what words, and whether that is ``equal`` depends on
    the kind: nobody has to take an empty text.
    """

    kind: str
    num_texts: int
    max_difference: float | None
    min_cosine: float | None
    min_norm: float | None
    max_norm: float | None
    equal: bool
    num_refused: int = 0
    refusal: str = ""


class Ranking(_Part):
    """Passages ranked for queries by both: share of the first ``depth`` kept, share of queries with the same first."""

    num_queries: int
    num_passages: int
    depth: int
    overlap: float
    same_first: float


class ArtefactParity(_Part):
    """One form of the encoder against the encoder. ``ranking`` is None where no queries and passages were given."""

    name: str
    equal: bool
    tolerance: Tolerance
    max_difference: float | None
    min_cosine: float | None
    ranking: Ranking | None
    kinds: tuple[KindParity, ...]
    differences: tuple[str, ...]

    def line(self) -> str:
        """What was measured where it passed."""
        measured = f"largest difference {_shown(self.max_difference, '.2g')}, cosine {_shown(self.min_cosine, '.6f')}"
        ranks = "" if self.ranking is None else f", overlap of rankings {self.ranking.overlap:.3f}"
        refused = [kind.kind for kind in self.kinds if kind.num_refused]
        also = f"; refused: {', '.join(refused)}" if refused else ""
        return f"{self.name}: equal in {len(self.kinds) - len(refused)} kinds of text ({measured}{ranks}){also}"

    def sentence(self) -> str:
        """What failed, how badly, and why."""
        unequal = [kind for kind in self.kinds if not kind.equal]
        causes = "; ".join(self.differences) or "it gave no vectors"
        if not unequal:
            overlap = "unknown" if self.ranking is None else f"{self.ranking.overlap:.3f}"
            return (
                f"{self.name}: vectors agree, but rankings do not: overlap {overlap} (wanted: {self.tolerance.text()})"
            )
        worst = max(unequal, key=lambda kind: float("inf") if kind.max_difference is None else kind.max_difference)
        return (
            f"{self.name}: {len(unequal)} of {len(self.kinds)} kinds of text do not give the encoder's vectors "
            f"(worst: {worst.kind}, {_size(worst)}; wanted: {self.tolerance.text()}): {causes}"
        )


class ParityReport(_Part):
    """The whole comparison: ``equal`` where every artefact is within its tolerance.

    ``num_passages_left_out`` real passages were longer than their own limit, but not than the folder's.
    """

    equal: bool
    fingerprint: str
    num_passages_left_out: int
    artefacts: tuple[ArtefactParity, ...]

    def text(self) -> str:
        """One line a form, for a terminal."""
        return "\n".join(item.line() if item.equal else item.sentence() for item in self.artefacts)


def render_page(report: ParityReport) -> str:
    """Return the report as one HTML page that opens offline."""
    source = resources.files("agentic_r.export").joinpath("parity.html.jinja").read_text(encoding="utf-8")
    environment = Environment(undefined=StrictUndefined, autoescape=True)
    return environment.from_string(source).render(report=report)


def _shown(value: float | None, form: str) -> str:
    return "unknown" if value is None else format(value, form)


def _size(kind: KindParity) -> str:
    if kind.num_refused:
        return f"refused: {kind.refusal}"
    if kind.max_difference is None or kind.min_cosine is None:
        return "vectors of another length, or not finite"
    norms = f"norms {kind.min_norm:.4g} to {kind.max_norm:.4g}"
    return f"a difference of {kind.max_difference:.2g}, cosine {kind.min_cosine:.4f}, {norms}"
