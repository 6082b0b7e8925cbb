"""Actor and critic as one module, so that one optimiser, one checkpoint and one launcher see both.

Owns how sampled tokens are scored: from the decoder's states, through the output layer on sampled positions only (with
observations in the context they are a small part). Dropout stays off, while training too: the policy ratio compares two
updates of one function, not two draws of its noise.
"""

import copy
from dataclasses import dataclass
from typing import Literal, Self

import torch
from torch import nn
from transformers import GenerationConfig, PreTrainedModel

from agentic_r.errors import ConfigError

__all__ = ["ActorCritic", "TokenScores", "score_tokens", "spread"]

# B trajectories, T token positions, N sampled tokens of the batch, D width, V vocabulary

_MAX_HEAD_GAP = 1e-2  # nats; rounding in half precision stays below it, a transformed logit does not


@dataclass(frozen=True, slots=True)
class TokenScores:
    """Per sampled token, 0 elsewhere (B, T): log-probability, entropy (nats), critic's value before it."""

    logprobs_BT: torch.Tensor
    entropy_BT: torch.Tensor
    values_BT: torch.Tensor


@dataclass(frozen=True, slots=True)
class SampledTokens:
    """The same per sampled token alone (N), with the states (N, D) before each."""

    logprobs_N: torch.Tensor
    entropy_N: torch.Tensor
    states_ND: torch.Tensor


def score_tokens(
    policy: PreTrainedModel,
    ids_BT: torch.Tensor,
    attention_BT: torch.Tensor,
    mask_BT: torch.Tensor,
    *,
    temperature: float,
) -> SampledTokens:
    """Score the sampled tokens of a right-padded batch.

    Args:
        policy: A causal language model.
        ids_BT: Token ids.
        attention_BT: 1 at real tokens, 0 at padding.
        mask_BT: True where the token was sampled; never at the first position.
        temperature: At which they were sampled.
    """
    states_ND = _states(policy.get_decoder(), ids_BT, attention_BT, mask_BT)  # type: ignore[no-untyped-call]
    output = policy.get_output_embeddings()  # type: ignore[no-untyped-call]  # transformers' own, as above
    log_NV = torch.log_softmax(output(states_ND).float() / temperature, dim=-1)
    logprobs_N = log_NV.gather(1, ids_BT[:, 1:][mask_BT[:, 1:]][:, None])[:, 0]
    return SampledTokens(logprobs_N, entropy_N=-(log_NV.exp() * log_NV).sum(-1), states_ND=states_ND)


class ActorCritic(nn.Module):
    """A policy and a critic: a linear head on the policy's states (``shared``) or on a copy of it (``separate``).

    The value loss moves the critic alone. With ``shared`` it stops at the head (our choice): let into the policy's
    trunk, it breaks an agent whose reward says nothing.

    Raises:
        ConfigError: the policy's logits are not what its output layer gives.
    """

    def __init__(self, policy: PreTrainedModel, *, critic: Literal["shared", "separate"], temperature: float) -> None:
        super().__init__()
        self.policy = policy
        decoder = policy.get_decoder()  # type: ignore[no-untyped-call]  # transformers' own
        self.trunk = copy.deepcopy(decoder) if critic == "separate" else None
        self.value_head = nn.Linear(policy.config.hidden_size, 1, dtype=torch.float32)
        nn.init.zeros_(self.value_head.weight)
        nn.init.zeros_(self.value_head.bias)
        self.temperature = temperature
        self.config = policy.config
        self.train(mode=False)
        _require_plain_head(policy)

    @property
    def generation_config(self) -> GenerationConfig | None:
        """Read by trainers that generate with the wrapped module."""
        return self.policy.generation_config

    def train(self, mode: bool = True) -> Self:
        """Stay in evaluation mode whatever the trainer asks for (see the head of this file)."""
        del mode
        return super().train(mode=False)

    def forward(self, ids_BT: torch.Tensor, attention_BT: torch.Tensor, mask_BT: torch.Tensor) -> TokenScores:
        """Score the sampled tokens of a right-padded batch."""
        sampled = score_tokens(self.policy, ids_BT, attention_BT, mask_BT, temperature=self.temperature)
        if self.trunk is None:
            states_ND = sampled.states_ND.detach()
        else:
            states_ND = _states(self.trunk, ids_BT, attention_BT, mask_BT)
        values_N = self.value_head(states_ND.float())[:, 0]
        return TokenScores(
            logprobs_BT=spread(sampled.logprobs_N, mask_BT),
            entropy_BT=spread(sampled.entropy_N, mask_BT),
            values_BT=spread(values_N, mask_BT),
        )


def spread(item_N: torch.Tensor, mask_BT: torch.Tensor) -> torch.Tensor:
    """Put per-token values back to their places (B, T), 0 elsewhere."""
    out_BT = torch.zeros(mask_BT.shape, dtype=item_N.dtype, device=item_N.device)
    return out_BT.masked_scatter(mask_BT, item_N)


def _states(
    decoder: nn.Module, ids_BT: torch.Tensor, attention_BT: torch.Tensor, mask_BT: torch.Tensor
) -> torch.Tensor:
    hidden_BTD: torch.Tensor = decoder(input_ids=ids_BT, attention_mask=attention_BT).last_hidden_state
    return hidden_BTD[:, :-1][mask_BT[:, 1:]]


@torch.no_grad()
def _require_plain_head(policy: PreTrainedModel) -> None:
    """Compare the two ways to a log-probability on four tokens: some models scale or cap their logits afterwards."""
    ids_BT = torch.arange(4, device=policy.device)[None]
    log_TV = policy(input_ids=ids_BT).logits[0].float().log_softmax(-1)
    whole_N = log_TV[:-1].gather(1, ids_BT[0, 1:, None])[:, 0]
    mask_BT = torch.tensor([[False, True, True, True]], device=policy.device)
    ours_N = score_tokens(policy, ids_BT, torch.ones_like(ids_BT), mask_BT, temperature=1.0).logprobs_N
    gap = float((whole_N - ours_N).abs().max())
    if gap > _MAX_HEAD_GAP:
        raise ConfigError(
            f"agent.model: {type(policy).__name__} changes its logits after the output layer (log-probabilities differ "
            f"by {gap:.2g}), which PPO here cannot follow; use another language model, or set ppo.steps to 0"
        )
