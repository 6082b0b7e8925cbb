from collections.abc import Sequence

import pytest
import torch
from bandit import new_bandit, settings
from ppo_values import trajectory, turn

from agentic_r.agent.rollout import Start
from agentic_r.config import PpoConfig
from agentic_r.errors import CollapseError
from agentic_r.ppo.actor_critic import ActorCritic
from agentic_r.ppo.experience import ExperienceSource, Minibatch, reward_of
from agentic_r.types import Question, Trajectory

MADE = [
    trajectory([5, 6], turn([7, 8, 9], [10, 11]), turn([12, 2]), correct=1.0),
    trajectory([5], turn([13], [14]), turn([15, 16, 2]), correct=0.0),
    trajectory([5, 6, 7], turn([8]), correct=1.0),
    trajectory([5], turn([9, 9, 9, 9]), correct=0.0, f1=0.5),
]
FAILED = trajectory([5], turn([20, 21], state="failed"), status="tool_failed")


class CannedRollout:
    """Comes back with the same trajectories each time."""

    def __init__(self, made: Sequence[Trajectory], reward: str = "em") -> None:
        self.made = list(made)
        self.config = new_bandit(reward=reward).rollout.config

    def run(self, starts: Sequence[Start], *, temperature: float, seed: int) -> list[Trajectory]:
        assert len(starts) == len(self.made)
        return self.made


def source(made: Sequence[Trajectory], config: PpoConfig, *, reward: str = "em") -> ExperienceSource:
    bandit = new_bandit()
    return ExperienceSource(
        ActorCritic(bandit.policy, critic=config.critic, temperature=1.0),
        reference=bandit.reference,
        rollout=CannedRollout(made, reward),
        questions=[Question(f"q{number}", "?", ("x",), "train") for number in range(len(made))],
        config=config,
        seed=0,
    )


def one_step(
    made: Sequence[Trajectory], *, reward: str = "em", **changes: object
) -> tuple[list[Minibatch], dict[str, float]]:
    config = settings(steps=1, rollouts_per_step=len(made), **{"minibatch_size": len(made), **changes})
    experience = source(made, config, reward=reward)
    batches = list(experience)
    return batches, experience.metrics


def sampled(batches: Sequence[Minibatch]) -> list[list[int]]:
    """Sampled ids of each trajectory, in a fixed order."""
    rows = (row for batch in batches for row in zip(batch["ids_BT"], batch["mask_BT"], strict=True))
    return sorted(ids[mask].tolist() for ids, mask in rows if mask.any())


def written(made: Sequence[Trajectory]) -> list[list[int]]:
    return sorted([token for turn in item.turns for token in turn.sampled_ids] for item in made)


@pytest.mark.parametrize("minibatch_size", [1, 2, 4])
def test_the_tokens_trained_on_are_exactly_those_that_the_rollout_sampled(minibatch_size: int) -> None:
    batches, _ = one_step(MADE, minibatch_size=minibatch_size)
    assert len(batches) == 4 // minibatch_size
    assert sampled(batches) == written(MADE)


def test_each_epoch_sees_every_trajectory_once_in_another_order() -> None:
    batches, _ = one_step(MADE, minibatch_size=1, epochs=3)
    epochs = [batches[start : start + 4] for start in (0, 4, 8)]
    assert all(sampled(epoch) == written(MADE) for epoch in epochs)
    orders = [[batch["ids_BT"][0].tolist() for batch in epoch] for epoch in epochs]
    assert orders[0] != orders[1] or orders[1] != orders[2]


def test_what_was_observed_or_padded_has_no_advantage_return_value_or_logprob() -> None:
    (batch,), _ = one_step(MADE)
    outside = ~batch["mask_BT"]
    for name in ("advantages_BT", "returns_BT", "values_BT", "logprobs_BT"):
        assert not batch[name][outside].any()
    assert batch["logprobs_BT"][batch["mask_BT"]].all()


def test_an_attempt_whose_search_failed_is_not_trained_on_and_the_rest_is_shared_out_evenly() -> None:
    batches, metrics = one_step([*MADE[:3], FAILED], minibatch_size=2)
    assert sampled(batches) == written(MADE[:3])
    assert [int(batch["mask_BT"].any(1).sum()) for batch in batches] == [2, 1]
    assert metrics["tool_failed"] == 1.0


def test_where_rows_are_too_few_an_update_gets_none_and_no_trajectory_is_seen_twice() -> None:
    batches, _ = one_step([MADE[0], FAILED, FAILED, FAILED], minibatch_size=1)
    assert len(batches) == 4
    assert sampled(batches) == written(MADE[:1])


def test_a_failed_search_is_no_wrong_answer() -> None:
    _, without = one_step(MADE[:3])
    _, with_failed = one_step([*MADE[:3], FAILED, FAILED, FAILED])
    assert with_failed.pop("tool_failed") == 3.0
    assert without.pop("tool_failed") == 0.0
    assert with_failed == pytest.approx(without)
    assert without["em"] == pytest.approx(2 / 3)
    assert without["tokens"] == pytest.approx((5 + 4 + 1) / 3)


def test_a_step_in_which_every_search_failed_cannot_be_learned_from() -> None:
    with pytest.raises(CollapseError, match="all 2 attempts ended because a search failed"):
        one_step([FAILED, FAILED])


@pytest.mark.parametrize(
    ("rule", "constant", "reward"), [("em", None, 0.0), ("f1", None, 0.5), ("em", 1.0, 1.0), ("f1", 0.25, 0.25)]
)
def test_the_reward_is_correctness_or_token_f1_or_the_constant(
    rule: str, constant: float | None, reward: float
) -> None:
    near_miss = trajectory([5], turn([1]), correct=0.0, f1=0.5)
    assert reward_of(near_miss, rule=rule, constant=constant) == reward


def test_the_metric_reward_is_what_the_policy_was_rewarded_with_and_em_what_labels_read() -> None:
    _, by_f1 = one_step(MADE, reward="f1")
    _, constant = one_step(MADE, constant_reward=0.25)
    _, by_em = one_step(MADE)
    assert (by_em["reward"], by_em["em"], by_em["f1"]) == (0.5, 0.5, 0.625)
    assert (by_f1["reward"], by_f1["em"]) == (0.625, 0.5)
    assert (constant["reward"], constant["em"]) == (0.25, 0.5)


def test_with_a_constant_reward_advantages_have_mean_zero_and_the_actor_does_not_move() -> None:
    (batch,), metrics = one_step(MADE, constant_reward=1.0)
    assert abs(float(batch["advantages_BT"][batch["mask_BT"]].mean())) < 1e-6
    assert float(batch["advantages_BT"].abs().max()) < 1e-6  # zero values, so nothing is left
    assert (bool(batch["moves_actor"]), metrics["rewards_differ"]) == (False, 0.0)
    (batch,), metrics = one_step(MADE)
    assert (bool(batch["moves_actor"]), metrics["rewards_differ"]) == (True, 1.0)


def test_right_attempts_get_positive_advantages_and_wrong_ones_negative() -> None:
    (batch,), _ = one_step(MADE)
    for ids, mask, advantages in zip(batch["ids_BT"], batch["mask_BT"], batch["advantages_BT"], strict=True):
        right = ids[mask].tolist() in written([MADE[0], MADE[2]])
        assert bool((advantages[mask] > 0).all()) is right
        assert bool((advantages[mask] < 0).all()) is not right


def test_a_policy_that_favours_its_tokens_more_than_the_reference_is_rewarded_less() -> None:
    config = settings(steps=1, rollouts_per_step=4, minibatch_size=4, kl=0.5, whiten=False)
    experience = source(MADE, config)
    with torch.no_grad():
        experience._reference.lm_head.weight.zero_()
    (batch,) = list(experience)
    drift = experience.metrics["kl"]
    assert drift != 0.0
    mask = batch["mask_BT"]
    unpenalised = torch.zeros_like(batch["returns_BT"])
    for row in range(4):
        right = batch["ids_BT"][row][mask[row]].tolist() in written([MADE[0], MADE[2]])
        unpenalised[row][mask[row]] = float(right)
    kl_BT = torch.where(mask, batch["logprobs_BT"] + torch.log(torch.tensor(29.0)), torch.zeros(()))
    to_come = torch.flip(torch.cumsum(torch.flip(kl_BT, [1]), 1), [1])  # from each token to the end
    expected = unpenalised - 0.5 * to_come
    assert torch.allclose(batch["returns_BT"][mask], expected[mask], atol=1e-4)


def test_a_source_begins_at_its_first_step() -> None:
    config = settings(steps=5, rollouts_per_step=4, minibatch_size=2)
    experience = source(MADE, config)
    experience.first_step = 3
    assert len(list(experience)) == 2 * experience.updates_per_step
    assert experience.updates_per_step == 2


def test_shuffled_rewards_keep_their_sum_and_say_nothing_about_their_attempt() -> None:
    made = [trajectory([5], turn([token]), correct=float(token < 14)) for token in range(8, 20)]
    (batch,), metrics = one_step(made, shuffle_rewards=True, kl=0.0, gamma=1.0, whiten=False)
    mask = batch["mask_BT"]
    rewards = {
        int(ids[row][0]): float(got[row][0])
        for ids, got, row in zip(batch["ids_BT"], batch["returns_BT"], mask, strict=True)
    }
    assert metrics["reward"] == 0.5
    assert sum(rewards.values()) == 6.0
    assert {token for token, reward in rewards.items() if reward == 1.0} != set(range(8, 14))
