import json
import re
import xml.etree.ElementTree as ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentic_r.errors import DataError
from agentic_r.evaluation.curves import RETRIEVER_CURVES, Curve, TrainingLog, dev_curves, read_points, training_charts
from agentic_r.evaluation.svg import (
    Bar,
    Line,
    Mark,
    Point,
    bar_chart,
    interval_chart,
    line_chart,
    nice_ticks,
    thinning,
)

finite = st.floats(min_value=-1e6, max_value=1e6)


def shapes(svg, name):
    return [item for item in ElementTree.fromstring(svg).iter() if item.tag == name]


def line(*values):
    return Line("run", tuple(Point(step, value) for step, value in enumerate(values)))


def write_log(path, *records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def test_ticks_are_round_and_enclose_the_values():
    assert nice_ticks(0, 1) == [0, 0.5, 1.0]
    assert nice_ticks(0.2, 0.6) == pytest.approx([0.2, 0.3, 0.4, 0.5, 0.6])
    assert nice_ticks(3, 97) == [0, 50, 100]


@settings(deadline=None)
@given(finite, finite)
def test_any_range_is_enclosed_by_few_ticks(a, b):
    low, high = min(a, b), max(a, b)
    ticks = nice_ticks(low, high)
    slack = 1e-6 * (ticks[1] - ticks[0])
    assert ticks[0] <= low + slack
    assert high - slack <= ticks[-1]
    assert 2 <= len(ticks) <= 7


def test_a_missing_value_is_a_gap_and_a_lonely_value_a_dot():
    svg = line_chart([line(1.0, 2.0, None, 3.0, 4.0, None, 5.0)], title="reward")
    assert len(shapes(svg, "polyline")) == 2
    assert len(shapes(svg, "circle")) == 1


def test_higher_values_are_drawn_higher():
    (drawn,) = shapes(line_chart([line(0.0, 1.0)], title="reward"), "polyline")
    (x0, y0), (x1, y1) = [tuple(map(float, spot.split(","))) for spot in drawn.get("points").split()]
    assert x0 < x1
    assert y1 < y0


def test_nothing_measured_draws_nothing():
    assert line_chart([], title="x") == ""
    assert line_chart([line(None, None)], title="x") == ""
    assert interval_chart([], title="x") == ""
    assert bar_chart([], title="x") == ""


def test_long_series_are_means_of_equal_groups():
    # 480 steps are drawn in groups of two: step 0 and 1 as 0.5, and so on: still the whole range.
    long = line(*(float(step) for step in range(480)))
    assert thinning(long.points) == 2
    (drawn,) = shapes(line_chart([long], title="x"), "polyline")
    assert len(drawn.get("points").split()) == 240


def test_text_in_charts_is_escaped():
    name = "</svg><script>alert('1')</script>"
    for svg in (
        line_chart([line(1.0)], title=name),
        interval_chart([Mark(name, 0.5, 0.4, 0.6)], title=name),
        bar_chart([Bar(name, 3)], title=name),
    ):
        assert "<script" not in svg
        assert shapes(svg, "title")[0].text == name


def test_bars_are_as_tall_as_their_counts():
    bars = shapes(bar_chart([Bar("a", 10), Bar("b", 5), Bar("c", 0)], title="x"), "rect")
    heights = [float(bar.get("height")) for bar in bars]
    assert heights == pytest.approx([100, 50, 0])


@settings(deadline=None, max_examples=60)
@given(st.lists(st.lists(st.one_of(st.none(), finite), max_size=8), max_size=3))
def test_any_series_draws_well_formed_finite_geometry(series):
    svg = line_chart([line(*values) for values in series], title="x")
    if svg:
        ElementTree.fromstring(svg)
        assert not re.search(r"\b(nan|inf)\b", svg)


def test_curves_of_all_iterations_are_drawn_together(tmp_path):
    first = write_log(
        tmp_path / "1.jsonl", {"step": 1, "loss": 2.0, "positive_similarity": 0.5, "negative_similarity": 0.4}
    )
    second = write_log(
        tmp_path / "2.jsonl", {"step": 1, "loss": 1.0, "positive_similarity": 0.6, "negative_similarity": 0.1}
    )
    loss, similarity, *_ = training_charts([TrainingLog(1, first), TrainingLog(2, second)], RETRIEVER_CURVES)
    assert (loss.title, [item.name for item in loss.lines]) == ("contrastive loss", ["iteration 1", "iteration 2"])
    assert [(item.name, item.is_dashed, item.colour) for item in similarity.lines] == [
        ("iteration 1 positives", False, 0),
        ("iteration 1 negatives", True, 0),
        ("iteration 2 positives", False, 1),
        ("iteration 2 negatives", True, 1),
    ]
    assert similarity.lines[3].points == (Point(1, 0.1),)


def test_a_step_without_a_value_is_a_counted_gap(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1, "kl": 0.1}\n{"step": 2, "kl": null}\n{"step": 3, "kl": NaN}\n{"step": 4, "em": 1}\n')
    assert read_points(path, "kl") == (Point(1, 0.1), Point(2, None), Point(3, None))
    (chart,) = training_charts([TrainingLog(1, path)], [Curve("kl", "KL")])
    assert chart.num_gaps == 2
    assert chart.is_measured


def test_a_training_run_without_a_log_or_a_key_is_not_measured(tmp_path):
    path = write_log(tmp_path / "metrics.jsonl", {"step": 1, "loss": 1.0})
    (chart,) = training_charts([TrainingLog(1, path), TrainingLog(2, tmp_path / "none.jsonl")], [Curve("kl", "KL")])
    assert chart.lines == ()
    assert not chart.is_measured


@pytest.mark.parametrize("record", [{"step": 1, "kl": "high"}, {"kl": 1.0}])
def test_a_record_that_holds_no_number_is_named(tmp_path, record):
    path = write_log(tmp_path / "metrics.jsonl", {"step": 0, "kl": 1.0}, record)
    with pytest.raises(DataError, match=r"metrics\.jsonl, record 2"):
        read_points(path, "kl")


def test_dev_evaluations_are_drawn_by_measure_over_steps(tmp_path):
    path = tmp_path / "dev.jsonl"
    path.write_text(
        '{"step": 0, "values": {"nDCG@10": 0.5, "R@5": 0.7}}\n{"step": 4, "values": {"nDCG@10": 0.6, "R@5": 0.8}}\n'
    )
    first, second = training_charts([TrainingLog(1, path)], dev_curves(["nDCG@10", "R@5"]))
    assert (first.title, first.lines[0].points) == ("dev nDCG@10", (Point(0, 0.5), Point(4, 0.6)))
    assert (second.title, second.lines[0].points) == ("dev R@5", (Point(0, 0.7), Point(4, 0.8)))
    path.write_text('{"step": 0, "values": 3}\n')
    with pytest.raises(DataError, match=r"record 1: values is 3; expected an object"):
        training_charts([TrainingLog(1, path)], dev_curves(["nDCG@10"]))
