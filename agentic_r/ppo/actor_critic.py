"""Actor and critic as one module, so that one optimiser, one checkpoint and one launcher see both."""

import copy
from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn
from transformers import GenerationConfig, PreTrainedModel

__all__ = ["ActorCritic", "TokenScores", "score_tokens"]

# B trajectories, T token positions, N sampled tokens of the batch, D width, V vocabulary


@dataclass(frozen=True, slots=True)
class TokenScores:
    """Per sampled token, 0 elsewhere (B, T): log-probability, entropy (nats), critic's value before it."""

    logprobs_BT: torch.Tensor
    entropy_BT: torch.Tensor
    values_BT: torch.Tensor


def score_tokens(
    policy: PreTrainedModel,
    ids_BT: torch.Tensor,
    attention_BT: torch.Tensor,
    mask_BT: torch.Tensor,
    *,
    temperature: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return log-probabilities (N), entropies (N) and the states (N, D) before each sampled token.

    The output layer runs on sampled positions only: with observations in the context they are a small part.
    """
    hidden_BTD = policy.get_decoder()(input_ids=ids_BT, attention_mask=attention_BT).last_hidden_state
    states_ND = hidden_BTD[:, :-1][mask_BT[:, 1:]]
    logits_NV = policy.get_output_embeddings()(states_ND).float() / temperature
    log_NV = torch.log_softmax(logits_NV, dim=-1)
    logprobs_N = log_NV.gather(1, ids_BT[:, 1:][mask_BT[:, 1:]][:, None])[:, 0]
    entropy_N = -(log_NV.exp() * log_NV).sum(-1)
    return logprobs_N, entropy_N, states_ND


class ActorCritic(nn.Module):
    """A policy and a critic: a linear head on the policy's states (``shared``) or on a copy of it (``separate``)."""

    def __init__(self, policy: PreTrainedModel, *, critic: Literal["shared", "separate"], temperature: float) -> None:
        super().__init__()
        self.policy = policy
        self.trunk = copy.deepcopy(policy.get_decoder()) if critic == "separate" else None
        self.value_head = nn.Linear(policy.config.hidden_size, 1, dtype=torch.float32)
        nn.init.zeros_(self.value_head.weight)
        nn.init.zeros_(self.value_head.bias)
        self.temperature = temperature
        self.config = policy.config

    @property
    def generation_config(self) -> GenerationConfig | None:
        """Read by trainers that generate with the wrapped module."""
        return self.policy.generation_config

    def forward(self, ids_BT: torch.Tensor, attention_BT: torch.Tensor, mask_BT: torch.Tensor) -> TokenScores:
        """Score the sampled tokens of a right-padded batch."""
        logprobs_N, entropy_N, states_ND = score_tokens(
            self.policy, ids_BT, attention_BT, mask_BT, temperature=self.temperature
        )
        if self.trunk is not None:
            hidden_BTD = self.trunk(input_ids=ids_BT, attention_mask=attention_BT).last_hidden_state
            states_ND = hidden_BTD[:, :-1][mask_BT[:, 1:]]
        values_N = self.value_head(states_ND.float())[:, 0]
        return TokenScores(*(spread(item_N, mask_BT) for item_N in (logprobs_N, entropy_N, values_N)))


def spread(item_N: torch.Tensor, mask_BT: torch.Tensor) -> torch.Tensor:
    """Put per-token values back to their places (B, T), 0 elsewhere."""
    out_BT = torch.zeros(mask_BT.shape, dtype=item_N.dtype, device=item_N.device)
    return out_BT.masked_scatter(mask_BT, item_N)
