"""Mined negatives: rank range, margin, what is never one, and that the draw depends on the seed alone."""

from dataclasses import dataclass

import pytest
from pydantic import ValidationError

from agentic_r.config import MiningConfig
from agentic_r.contrastive.mining import mine_negatives
from agentic_r.errors import DataError
from agentic_r.types import Passage, ScoredPassage, SearchResult, TrainingInstance

PASSAGES = {f"p{number}": Passage(f"p{number}", "d", "", f"Text {number}.") for number in range(1, 13)}
PASSAGES["copy"] = Passage("copy", "d", "", "text  1.")


@dataclass
class Ranked:
    """Gives every query the same hits."""

    hits: tuple[ScoredPassage, ...]
    state: str = "ok"
    fingerprint: str = "ranked"

    def format_query(self, query):
        return query.query

    def search(self, queries, *, k):
        return [SearchResult(self.hits[:k], state=self.state, cause="down") for _ in queries]


def hits(*names, first=1.0, step=0.05):
    return tuple(ScoredPassage(name, first - step * place) for place, name in enumerate(names))


def pair(name="i", **changes):
    return TrainingInstance(
        **{
            "id": name,
            "question_id": "q",
            "question": "",
            "query": "who?",
            "positive": "p1",
            "negatives": (),
            **changes,
        }
    )


def mine(instances, found, *, seed=0, **config):
    settings = MiningConfig(**{"first_rank": 1, "last_rank": 12, "negatives": 3, **config})
    return mine_negatives(instances, Ranked(found), PASSAGES, settings, seed=seed, progress=lambda *_: None)


def test_negatives_come_from_the_rank_range_in_order_of_rank():
    mined = mine([pair()], hits("p1", "p2", "p3", "p4", "p5", "p6"), first_rank=3, last_rank=5)
    assert mined.instances[0].negatives == ("p3", "p4", "p5")
    assert mined.num_short == 0


def test_h10_positives_and_their_texts_are_never_negatives_and_a_shortage_is_counted():
    mined = mine([pair(other_positives=("p4",))], hits("p1", "copy", "p4", "p2"))
    assert mined.instances[0].negatives == ("p2",)
    assert (mined.num_same_text, mined.num_short) == (1, 1)


def test_hits_nearly_as_close_as_the_positive_are_left_out_and_counted():
    # scores 1.0, 0.95 (the positive), 0.90, 0.85, 0.80; at most 0.9 x 0.95 = 0.855
    mined = mine([pair()], hits("p2", "p1", "p3", "p4", "p5"), relative_margin=0.1)
    assert mined.instances[0].negatives == ("p4", "p5")
    assert mined.num_over_margin == 2


def test_with_a_margin_a_positive_that_was_not_found_bounds_nothing_from_above():
    mined = mine([pair()], hits("p2", "p3"), relative_margin=0.1)
    assert mined.instances[0].negatives == ()
    assert (mined.num_unfound_positives, mined.num_over_margin) == (1, 2)
    assert mine([pair()], hits("p2", "p3")).instances[0].negatives == ("p2", "p3")


def test_negatives_that_a_row_brought_along_stay_and_count():
    mined = mine([pair(negatives=("p9", "p8"))], hits("p8", "p2", "p3"), negatives=3)
    assert mined.instances[0].negatives[:2] == ("p9", "p8")
    assert len(mined.instances[0].negatives) == 3
    assert set(mined.instances[0].negatives[2:]) <= {"p2", "p3"}


def test_the_draw_depends_on_seed_and_instance_alone():
    found = hits(*(f"p{number}" for number in range(1, 13)))
    first = mine([pair("a"), pair("b")], found)
    assert mine([pair("b"), pair("a")], found).instances[::-1] == first.instances
    drawn = {mine([pair("a")], found, seed=seed).instances[0].negatives for seed in range(10)}
    assert len(drawn) > 1


def test_a_search_that_failed_is_no_empty_result():
    with pytest.raises(DataError, match=r"search of instance i failed \(down\)"):
        mine_negatives([pair()], Ranked((), state="failed"), PASSAGES, MiningConfig(), seed=0, progress=lambda *_: None)


def test_a_rank_range_that_ends_before_it_begins_is_refused():
    with pytest.raises(ValidationError, match=r"mining\.last_rank 5 is before mining\.first_rank 10"):
        MiningConfig(last_rank=5)
