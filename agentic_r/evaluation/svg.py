"""Small charts as inline SVG: lines, intervals, bars.

Owns geometry only. Colours come from the page by class (``s0`` ... ``s4`` for series, ``s5`` neutral; ``grid``,
``tick``), so that light and dark are the page's business. Every text is escaped. A value of None is a gap, never 0.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

__all__ = [
    "NEUTRAL",
    "NUM_COLOURS",
    "Bar",
    "Line",
    "Mark",
    "Point",
    "bar_chart",
    "interval_chart",
    "line_chart",
    "nice_ticks",
    "thinning",
]

NUM_COLOURS = 5
NEUTRAL = NUM_COLOURS  # the colour of what is not a series
_WIDTH, _HEIGHT = 360, 190
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 12, 10, 30
_MAX_POINTS = 240  # more are averaged in groups; whoever draws says so (thinning)
_ROW = 30
_LABEL = 92


@dataclass(frozen=True, slots=True)
class Point:
    """A step and its value; None where the step has none."""

    x: float
    y: float | None


@dataclass(frozen=True, slots=True)
class Line:
    """One series; ``colour`` is a number of the palette, the same for the same iteration everywhere."""

    name: str
    points: tuple[Point, ...]
    colour: int = 0
    is_dashed: bool = False


@dataclass(frozen=True, slots=True)
class Mark:
    """A value with the ends of its interval."""

    name: str
    value: float
    low: float
    high: float
    colour: int = 0


@dataclass(frozen=True, slots=True)
class Bar:
    """A count under a name."""

    name: str
    count: int


@dataclass(frozen=True, slots=True)
class _Scale:
    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)


_NO_RANGE = 1e-300  # below it steps would underflow


def nice_ticks(low: float, high: float, *, count: int = 4) -> list[float]:
    """Return about ``count`` round numbers that enclose [low, high]: steps of 1, 2 or 5 times a power of ten."""
    if not (math.isfinite(low) and math.isfinite(high)) or low > high:
        raise ValueError(f"no ticks between {low} and {high}")
    if high - low < _NO_RANGE:
        size = max(abs(low), abs(high))
        margin = 0.5 if size < _NO_RANGE else size / 2
        low, high = low - margin, high + margin
    raw = (high - low) / count
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw * (1 - 1e-9))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [index * step for index in range(first, last + 1)]


def line_chart(lines: Sequence[Line], *, title: str, x_label: str = "step") -> str:
    """Draw series over steps; long ones as means of groups of neighbouring steps. Empty without a value."""
    values = [(point.x, point.y) for line in lines for point in line.points if point.y is not None]
    if not values:
        return ""
    x_ticks = nice_ticks(min(x for x, _ in values), max(x for x, _ in values))
    y_ticks = nice_ticks(min(y for _, y in values), max(y for _, y in values))
    x = _Scale(min(v for v, _ in values), max(v for v, _ in values), _LEFT, _WIDTH - _RIGHT)
    if x.low == x.high:
        x = _Scale(x.low - 1, x.high + 1, _LEFT, _WIDTH - _RIGHT)
    y = _Scale(y_ticks[0], y_ticks[-1], _HEIGHT - _BOTTOM, _TOP)
    parts = [_horizontal(y(tick), _tick_text(tick)) for tick in y_ticks]
    parts += [
        _text(x(tick), _HEIGHT - _BOTTOM + 14, _tick_text(tick), "tick mid")
        for tick in x_ticks
        if x.low <= tick <= x.high
    ]
    parts.append(_text((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 2, x_label, "tick mid"))
    parts += [mark for line in lines for mark in _line_marks(line, x, y)]
    return _svg(parts, title=title, height=_HEIGHT)


def interval_chart(marks: Sequence[Mark], *, title: str, low: float = 0.0, high: float | None = None) -> str:
    """Draw one dot with whiskers a mark, below one another. Empty without a mark."""
    if not marks:
        return ""
    ticks = nice_ticks(min(low, *(m.low for m in marks)), max(m.high for m in marks) if high is None else high)
    x = _Scale(ticks[0], ticks[-1], _LABEL, _WIDTH - 16)
    bottom = _ROW * len(marks) + 8
    parts = []
    for tick in ticks:
        parts.append(f'<line class="grid" x1="{x(tick):.1f}" x2="{x(tick):.1f}" y1="4" y2="{bottom}"/>')
        parts.append(_text(x(tick), bottom + 14, _tick_text(tick), "tick mid"))
    for place, mark in enumerate(marks):
        middle = 8 + _ROW * (place + 0.5)
        colour = f"s{mark.colour}"
        parts.append(_text(_LABEL - 10, middle + 4, mark.name, "name end"))
        ends = f'x1="{x(mark.low):.1f}" x2="{x(mark.high):.1f}" y1="{middle}" y2="{middle}"'
        parts.append(f'<line class="whisker {colour}" {ends}/>')
        parts.append(f'<circle class="dot {colour}" cx="{x(mark.value):.1f}" cy="{middle}" r="4.5"/>')
    return _svg(parts, title=title, height=bottom + 20)


def bar_chart(bars: Sequence[Bar], *, title: str) -> str:
    """Draw counts as columns with the count above each. Empty without a bar."""
    if not bars:
        return ""
    height, top = 140, 18
    most = max(1, *(bar.count for bar in bars))
    y = _Scale(0, most, height - 22, top)
    slot = (_WIDTH - 8) / len(bars)
    parts = [f'<line class="grid" x1="4" x2="{_WIDTH - 4}" y1="{y(0)}" y2="{y(0)}"/>']
    for place, bar in enumerate(bars):
        left, tall = 4 + slot * place, y(0) - y(bar.count)
        parts.append(
            f'<rect class="bar" x="{left + slot * 0.12:.1f}" y="{y(bar.count):.1f}" '
            f'width="{slot * 0.76:.1f}" height="{tall:.1f}" rx="2"/>'
        )
        parts.append(_text(left + slot / 2, y(bar.count) - 4, f"{bar.count:,}", "tick mid"))
        parts.append(_text(left + slot / 2, height - 6, bar.name, "tick mid"))
    return _svg(parts, title=title, height=height)


def thinning(points: Sequence[Point]) -> int:
    """Return how many neighbouring points are drawn as one."""
    return max(1, -(-len(points) // _MAX_POINTS))


def _line_marks(line: Line, x: _Scale, y: _Scale) -> Iterator[str]:
    colour = f"s{line.colour % NUM_COLOURS}" + (" dashed" if line.is_dashed else "")
    for run in _runs(_thinned(line.points)):
        spots = [f"{x(spot_x):.1f},{y(spot_y):.1f}" for spot_x, spot_y in run]
        if len(spots) == 1:
            yield f'<circle class="dot {colour}" cx="{spots[0].split(",")[0]}" cy="{spots[0].split(",")[1]}" r="3"/>'
        else:
            yield f'<polyline class="line {colour}" points="{" ".join(spots)}"/>'


def _thinned(points: Sequence[Point]) -> list[Point]:
    """At most _MAX_POINTS points: each the mean of a group of neighbours (of those that have a value)."""
    size = thinning(points)
    if size == 1:
        return list(points)
    thinned = []
    for start in range(0, len(points), size):
        group = points[start : start + size]
        values = [point.y for point in group if point.y is not None]
        mean = sum(values) / len(values) if values else None
        thinned.append(Point(sum(point.x for point in group) / len(group), mean))
    return thinned


def _runs(points: Sequence[Point]) -> Iterator[list[tuple[float, float]]]:
    run: list[tuple[float, float]] = []
    for point in points:
        if point.y is not None:
            run.append((point.x, point.y))
        elif run:
            yield run
            run = []
    if run:
        yield run


def _horizontal(height: float, label: str) -> str:
    line = f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{height:.1f}" y2="{height:.1f}"/>'
    return line + _text(_LEFT - 6, height + 4, label, "tick end")


def _text(x: float, y: float, text: str, css: str) -> str:
    return f'<text class="{css}" x="{x:.1f}" y="{y:.1f}">{escape(text)}</text>'


def _tick_text(value: float) -> str:
    if value and not 1e-3 <= abs(value) < 1e5:
        return f"{value:.0e}".replace("e-0", "e-").replace("e+0", "e")
    return f"{round(value, 6):,g}" if abs(value) < 1000 else f"{value:,.0f}"


def _svg(parts: Sequence[str], *, title: str, height: float) -> str:
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height:g}" role="img" aria-label="{escape(title)}">'
        f"<title>{escape(title)}</title>{''.join(parts)}</svg>"
    )
