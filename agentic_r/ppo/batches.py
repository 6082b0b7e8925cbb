"""Trajectories as padded tensors, with the mask of sampled tokens by provenance."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from agentic_r.types import Trajectory

__all__ = ["PaddedBatch", "pad_trajectories", "sampled_tokens"]

# B trajectories, T token positions


@dataclass(frozen=True, slots=True)
class PaddedBatch:
    """Right-padded ids, which positions are real (attention) and which were sampled (mask)."""

    ids_BT: torch.Tensor
    attention_BT: torch.Tensor
    mask_BT: torch.Tensor

    def rows(self, rows: Sequence[int]) -> "PaddedBatch":
        """Return some of its trajectories, padded to their own longest."""
        used = int(self.attention_BT[rows].sum(1).max())
        return PaddedBatch(self.ids_BT[rows, :used], self.attention_BT[rows, :used], self.mask_BT[rows, :used])


def sampled_tokens(trajectory: Trajectory) -> tuple[list[int], list[bool]]:
    """Return a trajectory's token ids and, for each, whether the model sampled it."""
    ids = list(trajectory.prompt_ids)
    mask = [False] * len(ids)
    for turn in trajectory.turns:
        ids += [*turn.sampled_ids, *turn.observation_ids]
        mask += [True] * len(turn.sampled_ids) + [False] * len(turn.observation_ids)
    return ids, mask


def pad_trajectories(
    trajectories: Sequence[Trajectory], *, pad_id: int, device: torch.device | str = "cpu"
) -> PaddedBatch:
    """Pad to the longest; an observation after the last sampled token is left out, since nothing follows it."""
    rows = []
    for trajectory in trajectories:
        ids, mask = sampled_tokens(trajectory)
        end = len(mask) - mask[::-1].index(True) if any(mask) else len(mask)
        rows.append((ids[:end], mask[:end]))
    width = max(len(ids) for ids, _ in rows)
    return PaddedBatch(
        ids_BT=torch.tensor([ids + [pad_id] * (width - len(ids)) for ids, _ in rows], device=device),
        attention_BT=torch.tensor([[1] * len(ids) + [0] * (width - len(ids)) for ids, _ in rows], device=device),
        mask_BT=torch.tensor([mask + [False] * (width - len(mask)) for _, mask in rows], device=device),
    )
