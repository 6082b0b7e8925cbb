from collections import Counter

import numpy as np
import pytest
from labels_fakes import by_id, candidates, labelled, passage, question

from agentic_r.artifacts.fingerprint import fingerprint_text
from agentic_r.config import SelectionConfig
from agentic_r.labels.selection import (
    Dropped,
    choose_negatives,
    join_labels,
    select_instances,
    shuffle_labels,
)
from agentic_r.types import Correctness, Relevance, Skipped, UtilityLabel

NAMES = [f"p{number}" for number in range(20)]
PASSAGES = by_id(*[passage(name, f"text of {name}") for name in NAMES])
PAPER = SelectionConfig(rule="paper")
STRICT = SelectionConfig(rule="strict")


def twenty(*first):
    """A query with 20 candidates: ``first`` as (correctness, relevance), all others wrong and at 0.10."""
    pairs = [*first, *[(0.0, 0.10)] * (20 - len(first))]
    return labelled(*[(name, *pair) for name, pair in zip(NAMES, pairs, strict=True)])


def select(query, settings=PAPER, seed=0, passages=PASSAGES):
    return select_instances([query], passages=passages, settings=settings, seed=seed)


def reasons(selection):
    return [item.reason for item in selection.skipped]


@pytest.mark.parametrize("settings", [PAPER, STRICT])
def test_one_correct_and_relevant_candidate_is_the_positive_with_15_of_19_negatives(settings):
    (instance,) = select(twenty((1.0, 0.60)), settings).instances
    assert instance.positive == "p0"
    assert len(set(instance.negatives)) == 15
    assert set(instance.negatives) < set(NAMES[1:])
    assert (instance.query, instance.question, instance.question_id) == ("the query", "The question?", "q1")


@pytest.mark.parametrize("settings", [PAPER, STRICT])
def test_a_positive_below_the_threshold_gives_no_instance(settings):
    selection = select(twenty((1.0, 0.59)), settings)
    assert selection.instances == ()
    assert reasons(selection) == ["no candidate is relevant enough"]


@pytest.mark.parametrize("settings", [PAPER, STRICT])
def test_relevance_alone_makes_no_positive(settings):
    selection = select(twenty(*[(0.0, 1.0)] * 20), settings)
    assert selection.instances == ()
    assert reasons(selection) == ["no relevant candidate leads to a correct answer"]


def test_correctness_goes_before_relevance():
    query = twenty((0.0, 0.95), (1.0, 0.70))
    negatives = set()
    for seed in range(20):
        (instance,) = select(query, seed=seed).instances
        assert instance.positive == "p1"
        negatives |= set(instance.negatives)
    assert "p0" in negatives
    assert select(twenty((0.0, 0.95), (1.0, 0.50))).instances == ()


@pytest.mark.parametrize(("num_tied", "num_instances"), [(3, 3), (5, 3), (6, 0), (20, 0)])
def test_ties_give_at_most_three_instances_with_the_same_negatives_under_paper(num_tied, num_instances):
    selection = select(twenty(*[(1.0, 0.8)] * num_tied))
    assert len(selection.instances) == num_instances
    assert len({instance.negatives for instance in selection.instances}) <= 1
    assert reasons(selection) == ([] if num_instances else ["too few negatives"])
    for instance in selection.instances:
        assert {instance.positive, *instance.other_positives} == set(NAMES[:num_tied])


def test_a_failed_part_skips_the_query_under_paper():
    assert reasons(select(twenty((1.0, 0.8), (None, 0.1)))) == ["a label failed"]
    assert reasons(select(twenty(*[(1.0, None)] * 20))) == ["a label failed"]
    assert reasons(select(twenty(*[(None, 1.0)] * 20), STRICT)) == ["every label failed"]


def test_a_failed_part_keeps_its_candidate_out_under_strict():
    selection = select(twenty((1.0, 0.8), (None, 0.1), (0.0, None), (1.0, None)), STRICT)
    (instance,) = selection.instances
    assert not {"p1", "p2", "p3"} & set(instance.negatives)
    assert Dropped("q1/0/0", "p1", "a part of its label failed") in selection.dropped
    assert instance.other_positives == ("p3",)


def test_an_answer_correct_passage_is_a_negative_under_paper_and_never_under_strict():
    query = twenty((1.0, 0.9), (1.0, 0.2))
    drawn = [select(query, seed=seed).instances[0].negatives for seed in range(20)]
    assert any("p1" in negatives for negatives in drawn)
    for seed in range(20):
        selection = select(query, STRICT, seed=seed)
        assert "p1" not in selection.instances[0].negatives
        assert selection.instances[0].other_positives == ("p1",)
        assert selection.dropped == (Dropped("q1/0/0", "p1", "leads to a correct answer"),)


def test_strict_makes_do_with_fewer_negatives_and_notes_it():
    selection = select(twenty(*[(1.0, 0.8)] * 19), STRICT)
    assert [instance.negatives for instance in selection.instances] == [("p19",)] * 3
    assert selection.short == (Skipped("q1/0/0", "1 of 15 negatives"),)


def test_strict_without_any_negative_skips_the_query():
    assert reasons(select(twenty(*[(1.0, 0.8)] * 20), STRICT)) == ["no negative left"]


H10 = by_id(
    passage("p1", "Text A."),
    passage("p2", "Text A."),
    passage("p3", "text  a."),
    passage("n1", "Text B."),
    passage("p4", "Text D."),
)
H10_QUERY = labelled(("p1", 1.0, 0.9), ("p2", 0.0, 0.3), ("p3", 0.0, 0.3), ("n1", 0.0, 0.3), ("p4", 1.0, 0.9))


def test_h10_no_text_of_a_positive_and_no_other_positive_is_a_negative():
    selection = select(H10_QUERY, STRICT, passages=H10)
    assert [(item.positive, item.negatives) for item in selection.instances] == [("p1", ("n1",)), ("p4", ("n1",))]
    assert Counter(item.reason for item in selection.dropped) == {
        "same text as a positive": 2,
        "other positive of the query": 1,
    }
    assert {item.passage_id for item in selection.dropped} == {"p2", "p3", "p4"}
    assert set(selection.instances[0].other_positives) == {"p2", "p3", "p4"}


def test_h10_filling_from_a_pool_leaves_a_shortage_note():
    negatives = choose_negatives(
        ["p1", "p2", "n1"],
        positives=["p1", "p4"],
        barred={},
        texts={key: fingerprint_text(item.text) for key, item in H10.items()},
        size=3,
        generator=np.random.default_rng(0),
    )
    assert (negatives.ids, negatives.num_missing) == (("n1",), 2)
    assert negatives.dropped == {"p1": "the positive itself", "p2": "same text as a positive"}


def test_two_positives_of_one_text_give_one_instance_under_strict():
    query = labelled(("p1", 1.0, 0.9), ("p2", 1.0, 0.9), ("n1", 0.0, 0.3))
    selection = select(query, STRICT, passages=H10)
    assert [item.positive for item in selection.instances] == ["p1"]
    assert selection.dropped == (Dropped("q1/0/0", "p2", "same text as a positive"),)


def test_of_positives_of_one_text_the_best_ranked_keeps_its_place_under_strict():
    passages = by_id(passage("a", "x y"), passage("b", "u v"), passage("c", "x y"), passage("n", "other"))
    query = labelled(("a", 1.0, 0.9), ("b", 1.0, 0.8), ("c", 1.0, 0.7), ("n", 0.0, 0.3))
    selection = select(query, STRICT, passages=passages)
    assert selection.instances[0].positive == "a"


def test_a_wrong_passage_with_the_text_of_an_answer_correct_one_is_barred():
    query = labelled(("p4", 1.0, 0.9), ("p1", 1.0, 0.2), ("p2", 0.0, 0.2), ("n1", 0.0, 0.3))
    selection = select(query, STRICT, passages=H10)
    assert selection.instances[0].negatives == ("n1",)
    assert {item.passage_id: item.reason for item in selection.dropped} == {
        "p1": "leads to a correct answer",
        "p2": "same text as a passage that must not be a negative",
    }


def test_a_querys_draw_depends_on_its_seed_and_not_on_other_queries():
    one, other = twenty((1.0, 0.9)), labelled(*[(name, 1.0, 0.1) for name in NAMES], turn=1)
    alone = select(one, STRICT, seed=3).instances
    beside = select_instances([other, one], passages=PASSAGES, settings=STRICT, seed=3).instances
    assert alone == beside
    assert len({select(one, STRICT, seed=seed).instances[0].negatives for seed in range(5)}) > 1


def test_negatives_stay_in_ranked_order():
    (instance,) = select(twenty((1.0, 0.9))).instances
    assert list(instance.negatives) == sorted(instance.negatives, key=NAMES.index)


def test_labels_are_joined_by_query_and_passage():
    queries = [candidates("one", "p1", "p2"), candidates("two", "p1", turn=2)]
    relevance = [
        Relevance("q1/0/0", "p1", 0.5, "j"),
        Relevance("q1/0/0", "p2", None, "j", "unparsed"),
        Relevance("q1/0/2", "p1", 0.7, "j"),
    ]
    correctness = [Correctness("q1/0/0", "p1", 1.0), Correctness("q1/0/0", "p2", 0.0)]
    joined = join_labels(queries, {"q1": question("The question?", "x")}, relevance, correctness)
    assert joined[0].labels == (UtilityLabel("p1", 0.5, 1.0), UtilityLabel("p2", None, 0.0))
    assert joined[1].labels == (UtilityLabel("p1", 0.7, None),)


@pytest.mark.parametrize("settings", [PAPER, STRICT])
def test_an_instance_knows_the_relevance_of_its_passages_positive_first(settings):
    query = twenty((1.0, 0.9), (0.0, 0.5), (1.0, 0.8))
    (instance, *_) = select(query, settings).instances
    graded = {label.passage_id: label.relevance for label in query.labels}
    assert instance.relevance == (0.9, *(graded[key] for key in instance.negatives))


def test_shuffling_keeps_the_pairs_of_each_query_and_moves_them():
    query = twenty((1.0, 0.9), (0.0, 0.5))
    (shuffled,) = shuffle_labels([query], seed=1)
    pairs = [(label.correctness, label.relevance) for label in query.labels]
    moved = [(label.correctness, label.relevance) for label in shuffled.labels]
    assert sorted(pairs) == sorted(moved)
    assert pairs != moved
    assert [label.passage_id for label in shuffled.labels] == NAMES
    by_setting = select(query, SelectionConfig(rule="strict", shuffle_labels=True), seed=1)
    assert by_setting == select(shuffled, STRICT, seed=1)
