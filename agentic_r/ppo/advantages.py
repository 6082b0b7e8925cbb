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
    rewards: Sequence[float], values_BT: torch.Tensor, mask_BT: torch.Tensor, kl_BT: torch.Tensor, *, kl: float, gamma: float, lam: float
) -> Credit:
    r"""Masked GAE with the outcome on the last sampled token.

    With sampled positions t_1 < ... < t_n of a trajectory, r_i = -kl * kl_i + [i = n] * reward,
    delta_i = r_i + gamma * V(t_{i+1}) - V(t_i), A_i = delta_i + gamma * lam * A_{i+1}, V(t_{n+1}) = 0.

    Args:
        rewards: One final reward a trajectory.
        values_BT: The critic's values; read at sampled positions only.
        mask_BT: True where the token was sampled by the model.
        kl_BT: log pi - log pi_ref of each token.
        kl: Weight of the KL penalty inside the reward.
        gamma: Discount a sampled token.
        lam: GAE's lambda.

    Source: Schulman et al. 2016, eq. 16, over sampled tokens (``facts``: Agentic-R 1.2; masking ours, H14).
    """
    advantages_BT, returns_BT = torch.zeros_like(values_BT), torch.zeros_like(values_BT)
    for row, reward in enumerate(rewards):
        positions = mask_BT[row].nonzero()[:, 0]
        values = values_BT[row, positions].tolist()
        penalties = kl_BT[row, positions].tolist()
        advantages = [0.0] * len(values)
        next_value = next_advantage = 0.0
        for step in reversed(range(len(values))):
            step_reward = -kl * penalties[step] + (reward if step == len(values) - 1 else 0.0)
            delta = step_reward + gamma * next_value - values[step]
            next_advantage = advantages[step] = delta + gamma * lam * next_advantage
            next_value = values[step]
        advantages_BT[row, positions] = torch.tensor(advantages, dtype=values_BT.dtype)
        returns_BT[row, positions] = torch.tensor(
            [advantage + value for advantage, value in zip(advantages, values, strict=True)], dtype=values_BT.dtype
        )
    return Credit(advantages_BT, returns_BT)


def whiten(values_BT: torch.Tensor, mask_BT: torch.Tensor, *, min_std: float) -> torch.Tensor:
    """Shift and scale masked values to mean 0 and standard deviation 1; the rest stays 0.

    Where their deviation is below ``min_std`` they are only shifted: a batch in which nothing
    differs must not have its noise blown up into a signal (our choice).
    """
    chosen = values_BT[mask_BT]
    if chosen.numel() == 0:
        return values_BT
    std = chosen.std(unbiased=False)
    scale = std if float(std) >= min_std else torch.ones_like(std)
    return torch.where(mask_BT, (values_BT - chosen.mean()) / scale, torch.zeros_like(values_BT))
