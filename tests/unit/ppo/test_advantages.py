import pytest
import torch

from agentic_r.ppo.advantages import credit_tokens, whiten


def credit(
    values: list[float],
    mask: list[int],
    *,
    reward: float = 1.0,
    kls: list[float] | None = None,
    kl: float = 0.0,
    gamma: float = 1.0,
    lam: float = 0.95,
) -> tuple[list[float], list[float]]:
    made = credit_tokens(
        [reward],
        values_BT=torch.tensor([values]),
        mask_BT=torch.tensor([mask], dtype=torch.bool),
        kl_BT=torch.tensor([kls or [0.0] * len(values)]),
        kl=kl,
        gamma=gamma,
        lam=lam,
    )
    return made.advantages_BT[0].tolist(), made.returns_BT[0].tolist()


@pytest.mark.parametrize("critic_noise", [9.0, -100.0, float("nan")])
def test_h14_credit_passes_over_tool_output_undecayed_whatever_the_critic_says_there(critic_noise: float) -> None:
    advantages, returns = credit([0.5, 0.4, critic_noise, critic_noise, 0.2], [1, 1, 0, 0, 1])
    # 0.8 = 1 - 0.2; 0.56 = 0.2 - 0.4 + 0.95 * 0.8; 0.432 = 0.4 - 0.5 + 0.95 * 0.56
    assert advantages == pytest.approx([0.432, 0.56, 0.0, 0.0, 0.8], abs=1e-6)
    assert returns == pytest.approx([0.932, 0.96, 0.0, 0.0, 1.0], abs=1e-6)


def test_h14_ten_observation_tokens_more_change_nothing() -> None:
    short, _ = credit([0.5, 0.4, 9.0, 9.0, 0.2], [1, 1, 0, 0, 1])
    long, _ = credit([0.5, 0.4, *[9.0] * 12, 0.2], [1, 1, *[0] * 12, 1])
    assert [long[place] for place in (0, 1, 14)] == [short[place] for place in (0, 1, 4)]


def test_h14_with_a_discount_only_sampled_tokens_count_as_steps() -> None:
    advantages, _ = credit([0.5, 0.4, 9.0, 9.0, 0.2], [1, 1, 0, 0, 1], gamma=0.9)
    # 0.464 = 0.9 * 0.2 - 0.4 + 0.855 * 0.8; 0.25672 = 0.9 * 0.4 - 0.5 + 0.855 * 0.464
    assert advantages == pytest.approx([0.25672, 0.464, 0.0, 0.0, 0.8], abs=1e-6)


def test_h15_the_reward_falls_on_the_end_token_that_was_sampled_and_the_value_after_it_is_zero() -> None:
    # response 5 6 2, padded with 2: mask 1 1 1 0 0; zero values, so the advantage shows where the reward is
    advantages, _ = credit([0.0] * 5, [1, 1, 1, 0, 0], lam=0.0)
    assert advantages == [0.0, 0.0, 1.0, 0.0, 0.0]
    # the critic's value of the padding after the end (7) is not read
    advantages, _ = credit([0.0, 0.0, 0.25, 7.0, 7.0], [1, 1, 1, 0, 0], lam=0.0)
    assert advantages == [0.0, 0.25, 0.75, 0.0, 0.0]


def test_h15_a_response_that_fills_the_width_is_rewarded_on_its_last_position() -> None:
    advantages, _ = credit([0.0] * 5, [1, 1, 1, 1, 1], lam=0.0)
    assert advantages == [0.0, 0.0, 0.0, 0.0, 1.0]


def test_a_policy_that_moved_away_from_the_reference_is_penalised() -> None:
    # log pi - log pi_ref = 0.5 on both tokens, weight 0.1: the rewards are -0.05 and 1 - 0.05
    advantages, _ = credit([0.0, 0.0], [1, 1], kls=[0.5, 0.5], kl=0.1, lam=1.0)
    assert advantages == pytest.approx([0.9, 0.95])
    unmoved, _ = credit([0.0, 0.0], [1, 1], kls=[0.0, 0.0], kl=0.1, lam=1.0)
    assert unmoved == pytest.approx([1.0, 1.0])


def test_a_trajectory_without_sampled_tokens_gets_no_credit() -> None:
    assert credit([3.0, 3.0], [0, 0]) == ([0.0, 0.0], [0.0, 0.0])


def test_each_trajectory_has_its_own_reward() -> None:
    made = credit_tokens(
        [1.0, 0.0],
        values_BT=torch.tensor([[0.5], [0.5]]),
        mask_BT=torch.tensor([[True], [True]]),
        kl_BT=torch.zeros(2, 1),
        kl=0.0,
        gamma=1.0,
        lam=1.0,
    )
    assert made.advantages_BT.tolist() == [[0.5], [-0.5]]


def test_whitening_gives_mean_zero_and_deviation_one_over_masked_values() -> None:
    values = torch.tensor([[1.0, 3.0, 99.0], [5.0, 7.0, -99.0]])
    mask = torch.tensor([[True, True, False], [True, True, False]])
    # mean 4, deviation sqrt((9 + 1 + 1 + 9) / 4) = sqrt(5)
    expected = [[-3 / 5**0.5, -1 / 5**0.5, 0.0], [1 / 5**0.5, 3 / 5**0.5, 0.0]]
    assert whiten(values, mask, min_std=0.05).tolist() == [pytest.approx(row) for row in expected]


def test_values_that_hardly_differ_are_shifted_and_not_blown_up() -> None:
    values, mask = torch.tensor([[1.0, 1.02]]), torch.tensor([[True, True]])  # deviation 0.01
    assert whiten(values, mask, min_std=0.05).tolist()[0] == pytest.approx([-0.01, 0.01], abs=1e-6)
    assert whiten(values, mask, min_std=0.005).tolist()[0] == pytest.approx([-1.0, 1.0], abs=1e-3)


def test_a_reward_that_never_differs_is_whitened_to_nothing() -> None:
    values, mask = torch.tensor([[0.7, 0.7], [0.7, 9.0]]), torch.tensor([[True, True], [True, False]])
    assert whiten(values, mask, min_std=0.05).abs().max() < 1e-6


def test_nothing_to_whiten_stays_nothing() -> None:
    assert whiten(torch.tensor([[5.0]]), torch.tensor([[False]]), min_std=0.05).tolist() == [[0.0]]
