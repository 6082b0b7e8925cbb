import pytest
import torch

from agentic_r.ppo.actor_critic import TokenScores
from agentic_r.ppo.losses import Experience, masked_mean, ppo_loss

NAN = float("nan")


def one_token(
    *,
    logprob: float = -1.0,
    old: float = -1.0,
    value: float = 0.0,
    old_value: float = 0.0,
    advantage: float = 1.0,
    target: float = 0.0,
) -> tuple[TokenScores, Experience]:
    def at(number: float) -> torch.Tensor:
        return torch.tensor([[number]])

    scores = TokenScores(at(logprob), at(0.3), at(value))
    return scores, Experience(at(old), at(old_value), at(advantage), at(target), torch.tensor([[True]]))


def test_before_an_update_the_loss_is_minus_the_mean_advantage_and_nothing_is_clipped() -> None:
    loss = ppo_loss(*one_token(advantage=2.0), clip=0.2, value_clip=0.5)
    assert (float(loss.policy), float(loss.clipped_share), float(loss.divergence)) == (-2.0, 0.0, 0.0)
    assert float(loss.entropy) == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("ratio", "advantage", "policy", "clipped"),
    [
        (1.5, 1.0, -1.2, 1.0),  # gain beyond 1.2 is not counted
        (0.5, 1.0, -0.5, 0.0),  # a loss is
        (0.5, -1.0, 0.8, 1.0),
        (1.5, -1.0, 1.5, 0.0),
        (1.1, 1.0, -1.1, 0.0),
    ],
)
def test_the_ratio_is_clipped_on_the_side_that_would_gain(
    ratio: float, advantage: float, policy: float, clipped: float
) -> None:
    old = -2.0
    logprob = old + float(torch.tensor(ratio).log())
    loss = ppo_loss(*one_token(logprob=logprob, old=old, advantage=advantage), clip=0.2, value_clip=0.5)
    assert float(loss.policy) == pytest.approx(policy, abs=1e-6)
    assert float(loss.clipped_share) == clipped


@pytest.mark.parametrize(
    ("value", "old_value", "target", "loss"),
    [
        (0.3, 0.0, 1.0, 0.5 * 0.7**2),  # moved by less than the bound
        (0.9, 0.0, 1.0, 0.5 * 0.5**2),  # moved by 0.9: counted as 0.5
        (-0.9, 0.0, 1.0, 0.5 * 1.9**2),  # moved the wrong way: the larger error counts
    ],
)
def test_the_value_may_move_by_the_bound_only(value: float, old_value: float, target: float, loss: float) -> None:
    made = ppo_loss(*one_token(value=value, old_value=old_value, target=target), clip=0.2, value_clip=0.5)
    assert float(made.value) == pytest.approx(loss)


def test_an_enormous_ratio_stays_finite() -> None:
    loss = ppo_loss(*one_token(logprob=0.0, old=-200.0, advantage=-1.0), clip=0.2, value_clip=0.5)
    assert bool(torch.isfinite(loss.policy))


def test_where_nothing_was_sampled_nothing_is_read_and_no_gradient_arises() -> None:
    mask = torch.tensor([[False, True, False]])
    logprobs = torch.tensor([[NAN, -1.0, 5.0]], requires_grad=True)
    values = torch.tensor([[9.0, 0.5, NAN]], requires_grad=True)
    entropy = torch.tensor([[NAN, 0.5, NAN]], requires_grad=True)
    noise = torch.tensor([[NAN, -1.0, NAN]])
    loss = ppo_loss(
        TokenScores(logprobs, entropy, values), Experience(noise, noise, noise, noise, mask), clip=0.2, value_clip=0.5
    )
    (loss.policy + loss.value + loss.entropy).backward()
    for item in (logprobs, values, entropy):
        assert item.grad is not None
        assert item.grad[~mask].tolist() == [0.0, 0.0]
        assert float(item.grad[mask].abs()) > 0


def test_a_batch_without_sampled_tokens_has_loss_zero() -> None:
    scores, experience = one_token()
    empty = Experience(
        *(getattr(experience, n) for n in ("logprobs_BT", "values_BT", "advantages_BT", "returns_BT")),
        torch.tensor([[False]]),
    )
    loss = ppo_loss(scores, empty, clip=0.2, value_clip=0.5)
    assert (float(loss.policy), float(loss.value), float(loss.entropy)) == (0.0, 0.0, 0.0)


def test_a_masked_mean_reads_masked_values_only() -> None:
    mask = torch.tensor([[True, False, True]])
    assert float(masked_mean(torch.tensor([[1.0, NAN, 4.0]]), mask)) == 2.5
    assert float(masked_mean(torch.tensor([[NAN]]), torch.tensor([[False]]))) == 0.0
