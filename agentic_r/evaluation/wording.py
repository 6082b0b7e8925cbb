"""How values are written for people: one way for the terminal, the documentation and the report."""

from agentic_r.evaluation.summary import Comparison, Estimate

__all__ = [
    "NOT_MEASURED",
    "bytes_text",
    "count_noun",
    "count_text",
    "difference_text",
    "duration_text",
    "estimate_text",
    "number_text",
    "p_text",
    "stage_text",
]

NOT_MEASURED = "not measured"

_MINUTE, _HOUR = 60, 3600


def number_text(value: float) -> str:
    """Two decimals, without a negative zero."""
    return f"{value:z.2f}"


def estimate_text(estimate: Estimate | None) -> str:
    """Return ``0.62 [0.55-0.69]``, or "not measured"."""
    if estimate is None:
        return NOT_MEASURED
    return f"{estimate.value:z.2f} [{estimate.low:z.2f}-{estimate.high:z.2f}]"


def difference_text(comparison: Comparison) -> str:
    """Return ``+0.47 [+0.41, +0.53]``: signs shown, since a difference has them."""
    return f"{comparison.difference:+.2f} [{comparison.low:+.2f}, {comparison.high:+.2f}]"


def p_text(p_value: float) -> str:
    """Return ``p = 0.18`` or ``p < 0.001``."""
    return "p < 0.001" if p_value < 0.001 else f"p = {p_value:.2g}"


def stage_text(stage: str) -> str:
    """Return the name of a row, agent or retriever in words: "BM25", "base", "warm start", "iteration 2"."""
    if stage.startswith("iter-"):
        return f"iteration {stage.removeprefix('iter-')}"
    return {"bm25": "BM25", "warm": "warm start"}.get(stage, stage)


def duration_text(seconds: float) -> str:
    """Return ``8.3 s``, ``12 min 5 s`` or ``2 h 7 min``."""
    if seconds < _MINUTE:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < _HOUR:
        return f"{whole // _MINUTE} min {whole % _MINUTE} s"
    return f"{whole // _HOUR} h {whole % _HOUR // _MINUTE} min"


def bytes_text(size: int | None) -> str:
    """Return ``1.4 GB`` (decimal units), or "not measured"."""
    if size is None:
        return NOT_MEASURED
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= factor:
            return f"{size / factor:.1f} {unit}"
    return f"{size} bytes"


def count_noun(count: int, noun: str) -> str:
    """Return ``1 step`` or ``12,345 steps``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def count_text(count: int) -> str:
    """Return ``12,345``."""
    return f"{count:,}"
