"""PPO's losses over sampled tokens: pure functions of tensors."""

from dataclasses import dataclass

import torch

__all__ = ["PpoLoss", "masked_mean", "ppo_loss"]

# B trajectories, T token positions

_MAX_LOG_RATIO = 20.0  # exp() beyond it overflows in half precision; a step that gets there is lost anyway


@dataclass(frozen=True, slots=True)
class PpoLoss:
    """The parts of the loss (scalars) and two watches: share of clipped tokens, mean k3 divergence from the sampler."""

    policy: torch.Tensor
    value: torch.Tensor
    entropy: torch.Tensor
    clipped_share: torch.Tensor
    divergence: torch.Tensor


def masked_mean(values_BT: torch.Tensor, mask_BT: torch.Tensor) -> torch.Tensor:
    """Mean over masked tokens; 0 where there are none."""
    return (values_BT * mask_BT).sum() / mask_BT.sum().clamp(min=1)


def ppo_loss(
    *,
    logprobs_BT: torch.Tensor,
    old_logprobs_BT: torch.Tensor,
    values_BT: torch.Tensor,
    old_values_BT: torch.Tensor,
    entropy_BT: torch.Tensor,
    advantages_BT: torch.Tensor,
    returns_BT: torch.Tensor,
    mask_BT: torch.Tensor,
    clip: float,
    value_clip: float,
) -> PpoLoss:
    r"""Clipped policy and value losses.

    ratio = exp(logprob - old), policy = mean max(-A * ratio, -A * clamp(ratio, 1 - clip, 1 + clip)),
    value = mean 1/2 max((V - R)^2, (clamp(V, V_old - value_clip, V_old + value_clip) - R)^2).

    Source: Schulman et al. 2017, eq. 7; value clipping as in the published agent (Agentic-R 1.2).
    """
    log_ratio_BT = (logprobs_BT - old_logprobs_BT).clamp(-_MAX_LOG_RATIO, _MAX_LOG_RATIO)
    ratio_BT = log_ratio_BT.exp()
    plain_BT = -advantages_BT * ratio_BT
    bounded_BT = -advantages_BT * ratio_BT.clamp(1 - clip, 1 + clip)
    near_BT = old_values_BT + (values_BT - old_values_BT).clamp(-value_clip, value_clip)
    errors_BT = torch.maximum((values_BT - returns_BT) ** 2, (near_BT - returns_BT) ** 2)
    return PpoLoss(
        policy=masked_mean(torch.maximum(plain_BT, bounded_BT), mask_BT),
        value=0.5 * masked_mean(errors_BT, mask_BT),
        entropy=masked_mean(entropy_BT, mask_BT),
        clipped_share=masked_mean((bounded_BT > plain_BT).float(), mask_BT),
        divergence=masked_mean(ratio_BT - 1 - log_ratio_BT, mask_BT),
    )
