"""One step over several processes: who encodes what, and every vector on every process.

Every process knows the whole plan, so the whole batch. Its distinct texts are dealt out, longest first, one to each
process in turn; the vectors are gathered; each process computes the loss of the whole batch and sends gradients into
the vectors that it made itself. So no passage is encoded twice anywhere, masking sees the whole batch, and n processes
with B/n queries each take the step of one process with B.

    gradient of process r = d loss / d weights through its own vectors;   their sum = the gradient of one process

Data-parallel training averages gradients over processes, so the loss is multiplied by their number before the backward
pass (``Ranks.gradient_scale``).

Shapes: N texts of the whole batch, S of them on this process, D dimensions.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

import numpy as np
import torch
from accelerate import PartialState  # type: ignore[import-untyped]  # it has no types
from torch import Tensor, distributed

from agentic_r.contrastive.sharding import refuse_unfit_launch
from agentic_r.protocols import Vectors

__all__ = ["Ranks", "deal_out", "present_ranks", "start_ranks"]

_PATIENCE = timedelta(days=2)  # the first process may read, mine or index for long while the others wait


@dataclass(frozen=True, slots=True)
class Ranks:
    """Number of the present process, from 0, and how many there are."""

    rank: int = 0
    world: int = 1

    @property
    def gradient_scale(self) -> int:
        """What undoes the averaging of gradients."""
        return self.world

    @property
    def is_first(self) -> bool:
        """Say whether this process writes files."""
        return self.rank == 0

    def gather(self, own_SD: Tensor, shares: Sequence[Sequence[int]]) -> Tensor:
        """Return the vectors (N, D) of all texts in order; gradients flow into ``own_SD`` alone.

        Args:
            own_SD: Vectors of the texts ``shares[rank]``.
            shares: Texts of each process.
        """
        parts = [own_SD]
        if self.world > 1:
            width = max(len(share) for share in shares)
            sent = own_SD.new_zeros(width, own_SD.shape[1])
            sent[: len(own_SD)] = own_SD.detach()
            received = [torch.empty_like(sent) for _ in shares]
            distributed.all_gather(received, sent)
            parts = [
                own_SD if rank == self.rank else part[: len(share)]
                for rank, (part, share) in enumerate(zip(received, shares, strict=True))
            ]
        order = torch.tensor([text for share in shares for text in share], device=own_SD.device)
        return torch.cat(parts)[order.argsort()]

    def gather_rows(self, own: Vectors) -> Vectors:
        """Return all rows where this process has every ``world``-th, from ``rank``; no gradients."""
        if self.world == 1:
            return own
        parts: list[Vectors] = [own] * self.world
        distributed.all_gather_object(parts, own)
        rows = np.empty((sum(map(len, parts)), own.shape[1]), dtype=own.dtype)
        for rank, part in enumerate(parts):
            rows[rank :: self.world] = part
        return rows

    def largest(self, value: int) -> int:
        """Return the largest value that any process came here with."""
        values = [value] * self.world
        if self.world > 1:
            distributed.all_gather_object(values, value)
        return max(values)

    def agree(self, value: bool) -> bool:
        """Return what the first process says; all come here."""
        said = [value]
        if self.world > 1:
            distributed.broadcast_object_list(said, src=0)
        return said[0]

    def wait(self) -> None:
        """Return when every process has come here."""
        if self.world > 1:
            distributed.barrier()


def present_ranks() -> Ranks:
    """Return this process's place; one process where torch's process group was not started."""
    if distributed.is_available() and distributed.is_initialized():
        return Ranks(distributed.get_rank(), distributed.get_world_size())
    return Ranks()


def start_ranks() -> Ranks:
    """Let the processes that a launcher started meet, before the trainer does; alone there is nothing to do.

    Raises:
        ConfigError: they were started in a way that cannot be.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        PartialState(cpu=not torch.cuda.is_available(), timeout=_PATIENCE)
    refuse_unfit_launch()
    return present_ranks()


def deal_out(lengths: Sequence[int], *, world: int) -> list[list[int]]:
    """Deal texts to processes, longest first, one to each in turn; each process's texts in their own order.

    Args:
        lengths: Any measure of length (characters), the same on every process.
        world: Number of processes; no more than there are texts.
    """
    order = sorted(range(len(lengths)), key=lambda text: (-lengths[text], text))
    return [sorted(order[rank::world]) for rank in range(world)]
