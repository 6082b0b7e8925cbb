"""Generalised advantage estimation over sampled tokens only.

Observation tokens are no steps: credit passes over them undecayed, their values are never read.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

__all__ = ["Credit", "credit_tokens", "whiten"]

# B trajectories, T token positions


@dataclass(frozen=True, slots=True)
class Credit:
    """``advantages`` and ``returns`` (B, T); 0 where nothing was sampled."""

    advantages_BT: torch.Tensor
    returns_BT: torch.Tensor


def credit_tokens(
    rewards: Sequence[float],
    *,
    values_BT: torch.Tensor,
    mask_BT: torch.Tensor,
    kl_BT: torch.Tensor,
    kl: float,
    gamma: float,
    lam: float,
) -> Credit:
    """Masked GAE with the outcome on the last sampled token.

    With sampled positions t_1 < ... < t_n of a trajectory, r_i = -kl * kl_i + [i = n] * reward,
    delta_i = r_i + gamma * V(t_{i+1}) - V(t_i), A_i = delta_i + gamma * lam * A_{i+1}, V(t_{n+1}) = A_{n+1} = 0.
    Returns are R_i = A_i + V(t_i).

    Args:
        rewards: One final reward a trajectory.
        values_BT: The critic's values; read at sampled positions only.
        mask_BT: True where the token was sampled by the model.
        kl_BT: log pi - log pi_ref of each token (nats); read at sampled positions only.
        kl: Weight of the KL penalty inside the reward.
        gamma: Discount a sampled token.
        lam: GAE's lambda.

    Source: Schulman et al. 2016 (GAE), eq. 16, over sampled tokens; KL inside the reward as in the published agent
    (arXiv 2601.11888). Passing over observations is our choice: they are not actions.
    """
    advantages_BT, returns_BT = torch.zeros_like(values_BT), torch.zeros_like(values_BT)
    for row, reward in enumerate(rewards):
        chosen = mask_BT[row]
        values = values_BT[row, chosen].tolist()
        step_rewards = [-kl * item for item in kl_BT[row, chosen].tolist()]
        if step_rewards:
            step_rewards[-1] += reward
        advantages = _estimate(step_rewards, values, gamma=gamma, lam=lam)
        advantages_BT[row, chosen] = values_BT.new_tensor(advantages)
        returns_BT[row, chosen] = values_BT.new_tensor(
            [advantage + value for advantage, value in zip(advantages, values, strict=True)]
        )
    return Credit(advantages_BT, returns_BT)


def whiten(values_BT: torch.Tensor, mask_BT: torch.Tensor, *, min_std: float) -> torch.Tensor:
    """Shift and scale masked values to mean 0 and standard deviation 1; the rest is 0.

    Where their deviation is below ``min_std`` they are only shifted: a batch in which nothing
    differs must not have its noise blown up into a signal (our choice).
    """
    chosen = values_BT[mask_BT]
    if chosen.numel() == 0:
        return torch.zeros_like(values_BT)
    std = chosen.std(unbiased=False)
    scale = std if float(std) >= min_std else torch.ones_like(std)
    return torch.where(mask_BT, (values_BT - chosen.mean()) / scale, torch.zeros_like(values_BT))


def _estimate(rewards: Sequence[float], values: Sequence[float], *, gamma: float, lam: float) -> list[float]:
    """GAE over the steps of one trajectory."""
    advantages = [0.0] * len(values)
    next_value = next_advantage = 0.0
    for step in reversed(range(len(values))):
        delta = rewards[step] + gamma * next_value - values[step]
        next_advantage = advantages[step] = delta + gamma * lam * next_advantage
        next_value = values[step]
    return advantages
