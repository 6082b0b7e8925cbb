"""What the pages share: templates, figures, training curves drawn.

Nothing is fetched: style and charts are inline, there is no script. All text is escaped by the template.
"""

from dataclasses import dataclass

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from agentic_r.evaluation import wording
from agentic_r.evaluation.curves import Chart
from agentic_r.evaluation.svg import NUM_COLOURS, Line, line_chart, thinning

__all__ = ["Figure", "Legend", "curve_figure", "page_environment"]


@dataclass(frozen=True, slots=True)
class Legend:
    """A line's name and how it is drawn."""

    name: str
    css: str


@dataclass(frozen=True, slots=True)
class Figure:
    """A drawn chart; ``svg`` is empty where nothing was measured."""

    title: str
    svg: Markup
    legend: tuple[Legend, ...] = ()
    note: str = ""


def page_environment() -> Environment:
    """Return the templates, with the filters that they word numbers by."""
    environment = Environment(
        loader=PackageLoader("agentic_r.evaluation"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "bytes": wording.bytes_text,
        "count": wording.count_text,
        "count_noun": wording.count_noun,
        "difference": wording.difference_text,
        "duration": wording.duration_text,
        "number": wording.number_text,
        "p_value": wording.p_text,
        "stage": wording.stage_text,
    }
    return environment


def curve_figure(chart: Chart) -> Figure:
    """Draw training curves; says where points are means of several steps, and which steps have no value."""
    notes = []
    group = max((thinning(line.points) for line in chart.lines), default=1)
    if group > 1:
        notes.append(f"each point is the mean of {group} steps")
    if chart.num_gaps:
        notes.append(f"{wording.count_noun(chart.num_gaps, 'step')} without a value")
    return Figure(
        title=chart.title,
        svg=Markup(line_chart(chart.lines, title=chart.title, x_label=chart.x_label)),
        legend=tuple(
            Legend(line.name, _line_css(line))
            for line in chart.lines
            if line.name and any(p.y is not None for p in line.points)
        ),
        note="; ".join(notes),
    )


def _line_css(line: Line) -> str:
    return f"s{line.colour % NUM_COLOURS}" + (" dashed" if line.is_dashed else "")
