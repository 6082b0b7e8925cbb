import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentic_r.evaluation.intervals import Bootstrap, Interval, mean_interval, paired_difference

BOOTSTRAP = Bootstrap(seed=1, samples=200)
unit = st.floats(min_value=0, max_value=1)
by_question = st.dictionaries(st.text(max_size=3), unit, min_size=1, max_size=16)
few = settings(deadline=None, max_examples=40)


def numbered(values):
    return {f"q{number}": float(value) for number, value in enumerate(values)}


def wins_and_losses(wins, losses, *, ties):
    new = [1] * wins + [0] * losses + [1] * ties
    old = [0] * wins + [1] * losses + [1] * ties
    return numbered(new), numbered(old)


def test_no_question_has_no_value():
    assert mean_interval({}, bootstrap=BOOTSTRAP) is None
    assert paired_difference({}, {}, bootstrap=BOOTSTRAP) is None
    assert paired_difference({"q1": 1.0}, {"q2": 1.0}, bootstrap=BOOTSTRAP) is None


def test_one_question_has_an_interval_without_width_and_shows_no_difference():
    assert mean_interval({"q": 0.4}, bootstrap=BOOTSTRAP) == Interval(value=0.4, low=0.4, high=0.4)
    for old in (0.0, 0.5):  # McNemar, permutation: either sign is as extreme
        test = paired_difference({"q": 1.0}, {"q": old}, bootstrap=BOOTSTRAP)
        assert test is not None
        assert (test.difference, test.p_value, test.num_questions) == (1.0 - old, 1.0, 1)


def test_ends_of_the_interval_are_those_of_the_binomial():
    # 100 questions, 50 right: the resampled mean is Binomial(100, 0.5) / 100; its 2.5 % and 97.5 % points: 0.40, 0.60.
    interval = mean_interval(numbered([1] * 50 + [0] * 50), bootstrap=Bootstrap(seed=3, samples=4000))
    assert interval is not None
    assert interval.value == 0.5
    assert interval.low == pytest.approx(0.40, abs=0.011)
    assert interval.high == pytest.approx(0.60, abs=0.011)


def test_half_of_the_confidence_gives_a_narrower_interval():
    values = numbered([1] * 50 + [0] * 50)
    wide = mean_interval(values, bootstrap=Bootstrap(samples=2000, confidence=0.95))
    narrow = mean_interval(values, bootstrap=Bootstrap(samples=2000, confidence=0.5))
    assert wide is not None
    assert narrow is not None
    assert wide.low < narrow.low < narrow.high < wide.high


@pytest.mark.parametrize(
    ("wins", "losses", "p_value"),
    [
        (10, 4, 2 * (1 + 14 + 91 + 364 + 1001) / 2**14),  # 0.1796
        (8, 2, 2 * (1 + 10 + 45) / 2**10),  # 0.1094
        (5, 0, 2 / 2**5),
        (0, 5, 2 / 2**5),
        (3, 3, 1.0),
        (0, 0, 1.0),
    ],
)
def test_exact_mcnemar_counts_only_the_questions_that_disagree(wins, losses, p_value):
    new, old = wins_and_losses(wins, losses, ties=86)
    test = paired_difference(new, old, bootstrap=BOOTSTRAP)
    assert test is not None
    assert test.test == "mcnemar"
    assert test.p_value == pytest.approx(p_value)
    assert (test.wins, test.losses) == (wins, losses)
    assert test.difference == pytest.approx((wins - losses) / (wins + losses + 86))


def test_exact_mcnemar_stands_thousands_of_questions():
    new, old = wins_and_losses(1500, 1500, ties=0)
    test = paired_difference(new, old, bootstrap=BOOTSTRAP)
    assert test is not None
    assert test.p_value == 1.0


def test_permutation_test_looks_at_every_flip_of_few_differences():
    # Differences 0.5, 0.25, 0.25 and 0 (which does not matter): |sum| = 1 is reached by +++ and --- alone: 2 of 8.
    test = paired_difference(numbered([1, 0.5, 0.75, 0.3]), numbered([0.5, 0.25, 0.5, 0.3]), bootstrap=BOOTSTRAP)
    assert test is not None
    assert (test.test, test.p_value) == ("permutation", 2 / 8)
    # With 0.5, 0.25, -0.25 the sum is 0.5; |sum| >= 0.5 for +++ 1, ++- .5, +-+ .5 and the three mirrored: 6 of 8.
    test = paired_difference(numbered([1, 0.5, 0.5]), numbered([0.5, 0.25, 0.75]), bootstrap=BOOTSTRAP)
    assert test is not None
    assert test.p_value == 6 / 8


def test_drawn_flips_are_never_certain():
    # All 30 differences are positive: no drawn flip reaches the sum, so p is 1 / (draws + 1), not 0.
    test = paired_difference(numbered([0.7] * 30), numbered([0.2] * 30), bootstrap=BOOTSTRAP)
    assert test is not None
    assert test.p_value == 1 / 10_001


def test_drawn_flips_agree_with_the_exact_test_of_equal_differences():
    # 20 differences of +-0.5, 14 up and 6 down: the permutation test is then the sign test.
    exact = 2 * sum(math.comb(20, k) for k in range(7)) / 2**20  # 0.1153
    test = paired_difference(
        numbered([0.75] * 14 + [0.25] * 6), numbered([0.25] * 14 + [0.75] * 6), bootstrap=BOOTSTRAP
    )
    assert test is not None
    assert test.p_value == pytest.approx(exact, abs=0.012)


def test_questions_of_one_side_only_are_left_out_and_counted():
    test = paired_difference({"a": 1.0, "b": 1.0, "c": 0.0}, {"b": 0.0, "c": 0.0, "d": 1.0}, bootstrap=BOOTSTRAP)
    assert test is not None
    assert (test.difference, test.num_questions, test.num_unpaired) == (0.5, 2, 2)


def test_pairing_narrows_the_interval():
    # Sides differ by exactly 0.1 on every question: paired, the difference has no spread at all.
    old = numbered([0.0, 0.2, 0.4, 0.8])
    test = paired_difference({key: value + 0.1 for key, value in old.items()}, old, bootstrap=BOOTSTRAP)
    assert test is not None
    assert test.high - test.low == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_value_that_is_not_finite_is_refused(value):
    with pytest.raises(ValueError, match="not finite"):
        mean_interval({"q": value}, bootstrap=BOOTSTRAP)


def test_settings_out_of_range_are_refused():
    with pytest.raises(ValueError, match="samples 0"):
        Bootstrap(samples=0)
    with pytest.raises(ValueError, match=r"confidence 95"):
        Bootstrap(confidence=95)


@few
@given(by_question)
def test_the_interval_holds_the_value_and_lies_within_the_values(values):
    interval = mean_interval(values, bootstrap=BOOTSTRAP)
    assert interval is not None
    assert interval.low <= interval.value <= interval.high
    assert min(values.values()) - 1e-12 <= interval.low
    assert interval.high <= max(values.values()) + 1e-12


@few
@given(by_question, st.randoms())
def test_the_order_of_questions_changes_nothing(values, random):
    shuffled = list(values.items())
    random.shuffle(shuffled)
    assert mean_interval(values, bootstrap=BOOTSTRAP) == mean_interval(dict(shuffled), bootstrap=BOOTSTRAP)
    zeros = dict.fromkeys(values, 0.0)
    assert paired_difference(values, zeros, bootstrap=BOOTSTRAP) == paired_difference(
        dict(shuffled), zeros, bootstrap=BOOTSTRAP
    )


@few
@given(by_question)
def test_equal_inputs_show_no_difference(values):
    test = paired_difference(values, dict(values), bootstrap=BOOTSTRAP)
    assert test is not None
    assert (test.difference, test.low, test.high, test.p_value) == (0.0, 0.0, 0.0, 1.0)


@few
@given(by_question, st.data())
def test_swapping_the_sides_mirrors_the_difference(values, data):
    other = {key: data.draw(unit) for key in values}
    there = paired_difference(values, other, bootstrap=BOOTSTRAP)
    back = paired_difference(other, values, bootstrap=BOOTSTRAP)
    assert there is not None
    assert back is not None
    assert there.difference == pytest.approx(-back.difference)
    assert (there.wins, there.losses) == (back.losses, back.wins)
    assert there.p_value == pytest.approx(back.p_value)
    assert 0 < there.p_value <= 1
