"""PPO's losses over sampled tokens: pure functions of tensors."""

from dataclasses import dataclass

import torch

from agentic_r.ppo.actor_critic import TokenScores

__all__ = ["Experience", "PpoLoss", "masked_mean", "ppo_loss"]

# B trajectories, T token positions, N sampled tokens of the batch

_MAX_LOG_RATIO = 20.0  # exp() beyond it overflows in half precision; a step that gets there is lost anyway


@dataclass(frozen=True, slots=True)
class Experience:
    """What an update learns from, per sampled token (B, T).

    ``logprobs`` and ``values`` are the policy's and the critic's before the update, ``mask`` is True at sampled tokens;
    elsewhere nothing is read.
    """

    logprobs_BT: torch.Tensor
    values_BT: torch.Tensor
    advantages_BT: torch.Tensor
    returns_BT: torch.Tensor
    mask_BT: torch.Tensor


@dataclass(frozen=True, slots=True)
class PpoLoss:
    """The parts of the loss (scalars) and two watches: share of clipped tokens, mean k3 divergence from the sampler."""

    policy: torch.Tensor
    value: torch.Tensor
    entropy: torch.Tensor
    clipped_share: torch.Tensor
    divergence: torch.Tensor


def masked_mean(values_BT: torch.Tensor, mask_BT: torch.Tensor) -> torch.Tensor:
    """Mean over masked tokens; 0 where there are none. What is not masked is not read, be it NaN."""
    return _mean(values_BT[mask_BT])


def ppo_loss(scores: TokenScores, experience: Experience, *, clip: float, value_clip: float) -> PpoLoss:
    """Clipped policy and value losses, means over the sampled tokens of the batch.

    ratio = exp(logprob - old), policy = mean max(-A * ratio, -A * clamp(ratio, 1 - clip, 1 + clip)),
    value = mean 1/2 max((V - R)^2, (clamp(V, V_old - value_clip, V_old + value_clip) - R)^2),
    divergence = mean ratio - 1 - log ratio. Entropy is a mean, to be rewarded.

    Source: Schulman et al. 2017 (PPO), eq. 7; value clipping as in the published agent (arXiv 2601.11888).
    """
    mask_BT = experience.mask_BT
    advantages_N, returns_N = experience.advantages_BT[mask_BT], experience.returns_BT[mask_BT]
    log_ratio_N = scores.logprobs_BT[mask_BT] - experience.logprobs_BT[mask_BT]
    log_ratio_N = log_ratio_N.clamp(-_MAX_LOG_RATIO, _MAX_LOG_RATIO)
    ratio_N = log_ratio_N.exp()
    plain_N = -advantages_N * ratio_N
    bounded_N = -advantages_N * ratio_N.clamp(1 - clip, 1 + clip)
    values_N, old_values_N = scores.values_BT[mask_BT], experience.values_BT[mask_BT]
    near_N = old_values_N + (values_N - old_values_N).clamp(-value_clip, value_clip)
    errors_N = torch.maximum((values_N - returns_N) ** 2, (near_N - returns_N) ** 2)
    return PpoLoss(
        policy=_mean(torch.maximum(plain_N, bounded_N)),
        value=0.5 * _mean(errors_N),
        entropy=_mean(scores.entropy_BT[mask_BT]),
        clipped_share=_mean((bounded_N > plain_N).float()),
        divergence=_mean(ratio_N - 1 - log_ratio_N),
    )


def _mean(values_N: torch.Tensor) -> torch.Tensor:
    return values_N.sum() / max(values_N.numel(), 1)
