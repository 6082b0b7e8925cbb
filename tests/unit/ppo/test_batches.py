import pytest
from ppo_values import trajectory, turn

from agentic_r.ppo.batches import pad_trajectories, sampled_tokens


def test_provenance_decides_what_was_sampled_and_never_the_ids() -> None:
    # the observation repeats the very ids that the model wrote
    made = trajectory([7, 8], turn([1, 2], [1, 2, 8]), turn([8, 2]))
    assert sampled_tokens(made) == ([7, 8, 1, 2, 1, 2, 8, 8, 2], [False] * 2 + [True] * 2 + [False] * 3 + [True] * 2)


@pytest.mark.parametrize("pad_id", [0, 2])
def test_h15_an_end_token_that_is_the_padding_token_stays_sampled(pad_id: int) -> None:
    made = [trajectory([9], turn([5, 6, 2], action="answer")), trajectory([9], turn([5, 6, 5, 6, 5], action="answer"))]
    batch = pad_trajectories(made, pad_id=pad_id)
    assert batch.ids_BT.tolist() == [[9, 5, 6, 2, pad_id, pad_id], [9, 5, 6, 5, 6, 5]]
    assert batch.mask_BT.int().tolist() == [[0, 1, 1, 1, 0, 0], [0, 1, 1, 1, 1, 1]]
    assert batch.attention_BT.tolist() == [[1, 1, 1, 1, 0, 0], [1] * 6]


def test_an_observation_that_nothing_follows_is_left_out() -> None:
    batch = pad_trajectories([trajectory([9], turn([1], [4, 4, 4]))], pad_id=0)
    assert batch.ids_BT.tolist() == [[9, 1]]


def test_an_attempt_without_a_turn_is_its_prompt_alone() -> None:
    batch = pad_trajectories([trajectory([9, 9]), trajectory([9], turn([1]))], pad_id=0)
    assert batch.ids_BT.tolist() == [[9, 9], [9, 1]]
    assert batch.mask_BT.int().tolist() == [[0, 0], [0, 1]]


def test_some_rows_are_padded_to_their_own_longest() -> None:
    batch = pad_trajectories([trajectory([9], turn([1] * 5)), trajectory([9], turn([1])), trajectory([9])], pad_id=0)
    part = batch.rows([2, 1])
    assert part.ids_BT.tolist() == [[9, 0], [9, 1]]
    assert part.mask_BT.int().tolist() == [[0, 0], [0, 1]]
