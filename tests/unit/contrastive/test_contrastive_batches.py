"""Order, columns and refusals of the plan of batches."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agentic_r.contrastive.batches import check_plan, make_batch, plan_steps
from agentic_r.contrastive.loss import masked_columns
from agentic_r.contrastive.steps import identities_of
from agentic_r.errors import ConfigError, DataError
from agentic_r.types import Passage, TrainingInstance


def passage(name: str, text: str | None = None) -> Passage:
    return Passage(id=name, document_id=f"d-{name}", title="", text=f"text of {name}" if text is None else text)


def instance(
    name: str, positive: str, negatives: tuple[str, ...] = (), others: tuple[str, ...] = ()
) -> TrainingInstance:
    return TrainingInstance(
        id=name,
        question_id="q",
        question="who?",
        query=name,
        positive=positive,
        negatives=negatives,
        other_positives=others,
    )


PASSAGES = {name: passage(name) for name in ("p1", "p2", "p3", "n1", "n2", "n3")}


@settings(deadline=None)
@given(st.integers(1, 60), st.integers(1, 17), st.integers(1, 3), st.integers(0, 5))
def test_every_epoch_holds_every_row_once_in_batches_that_differ_by_at_most_one(num, size, epochs, seed):
    steps = plan_steps(num, batch_size=size, epochs=epochs, seed=seed)
    per_epoch = -(-num // size)
    assert len(steps) == per_epoch * epochs
    for epoch in range(epochs):
        part = steps[epoch * per_epoch : (epoch + 1) * per_epoch]
        assert sorted(row for rows in part for row in rows) == list(range(num))
        lengths = [len(rows) for rows in part]
        assert max(lengths) <= size
        assert max(lengths) - min(lengths) <= 1


def test_the_order_depends_on_the_seed_and_the_epoch_alone():
    first = plan_steps(20, batch_size=4, epochs=2, seed=7)
    assert first == plan_steps(20, batch_size=4, epochs=2, seed=7)
    assert first != plan_steps(20, batch_size=4, epochs=2, seed=8)
    assert first[:5] != first[5:]
    assert first == plan_steps(20, batch_size=4, epochs=5, seed=7)[:10]


def test_seventeen_rows_in_batches_of_sixteen_leave_no_lone_row():
    assert [len(rows) for rows in plan_steps(17, batch_size=16, epochs=1, seed=0)] == [9, 8]


def test_a_passage_named_by_several_rows_is_one_column():
    batch = make_batch([instance("a", "p1", ("n1", "n2")), instance("b", "p2", ("n1", "p1"))], PASSAGES)
    assert [column.id for column in batch.passages] == ["p1", "n1", "n2", "p2"]
    assert batch.positive_columns == (0, 3)


def test_other_positives_are_known_to_the_row_but_add_no_column():
    batch = make_batch([instance("a", "p1", ("n1",), others=("p3", "p1"))], PASSAGES)
    assert [column.id for column in batch.passages] == ["p1", "n1"]
    assert [kept.id for kept in batch.row_positives[0]] == ["p1", "p3"]


def counts(instances, passages=PASSAGES, batch_size=2, seed=0):
    steps = plan_steps(len(instances), batch_size=batch_size, epochs=1, seed=seed)
    return check_plan(instances, passages, steps=steps, batch_size=batch_size)


def test_fewer_passages_than_the_fullest_instance_are_counted():
    found = counts([instance("a", "p1", ("n1", "n2")), instance("b", "p2", ("n1",)), instance("c", "p3", ("n1", "n2"))])
    assert found.short_instances == 1


def test_h10_a_given_negative_with_a_positives_text_is_masked_and_counted():
    passages = {"p1": passage("p1", "Text A."), "p3": passage("p3", "text  a."), "n1": passage("n1", "Text B.")}
    found = counts([instance("a", "p1", ("p3", "n1"))], passages)
    assert found.masked_own_negatives == 1
    assert found.rows_without_negatives == 0


def test_rows_that_will_have_no_negative_are_counted_before_the_first_step():
    # p1 and p2 are both positives of a; b has p1 as a negative
    found = counts([instance("a", "p1", others=("p2",)), instance("b", "p2")])
    assert found.rows_without_negatives == 1
    assert found.steps == 1
    assert found.passages == 2


def test_h12_batch_size_one_without_hard_negatives_is_refused_naming_the_setting():
    with pytest.raises(ConfigError, match=r"contrastive\.batch_size 1 leaves 2 of 3 instances .*first: a"):
        counts([instance("a", "p1"), instance("b", "p2", ("n1",)), instance("c", "p3")], batch_size=1)


def test_h12_batch_size_one_with_hard_negatives_is_fine():
    assert counts([instance("a", "p1", ("n1",)), instance("b", "p2", ("n1",))], batch_size=1).steps == 2


def test_h12_negatives_that_repeat_the_positive_are_none():
    passages = {"p1": passage("p1", "Same."), "n1": passage("n1", "same.")}
    with pytest.raises(ConfigError, match=r"contrastive\.batch_size 1 leaves 1 of 1"):
        counts([instance("a", "p1", ("n1",))], passages, batch_size=1)


def test_h12_a_step_in_which_no_row_has_a_negative_is_refused_before_training():
    with pytest.raises(DataError, match="step 1: no row has a negative"):
        counts([instance("a", "p1"), instance("b", "p1")])


def test_a_passage_that_does_not_exist_is_named_with_its_instance():
    with pytest.raises(DataError, match="instance a: no passage 'p9'"):
        counts([instance("a", "p1", ("p9",))])


def test_without_masking_a_row_knows_its_own_column_alone():
    passages = PASSAGES | {"copy": replace(PASSAGES["p1"], id="copy")}
    batch = make_batch([instance("a", "p1", ("n1", "copy"), others=("p2",)), instance("b", "p2", ("n2",))], passages)
    device = torch.device("cpu")
    assert [kept.id for kept in batch.passages] == ["p1", "n1", "copy", "p2", "n2"]
    on = masked_columns(identities_of(batch, device))
    off = masked_columns(identities_of(batch, device, is_masked=False))
    assert on.tolist() == [[False, False, True, True, False], [False] * 5]  # p1 is not known to be b's
    assert not off.any()
