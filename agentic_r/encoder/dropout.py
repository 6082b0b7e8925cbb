"""Dropout in less time: 16 random bits an element, where torch draws 53.

Owns the draw of what stays, for attention weights (``packing.py``) and for a model's own layers. On CPU torch's draws
were a seventh of a training step (docs/log.md). All draws come from torch's generator, so that a chunk that is computed
twice drops the same elements both times.
"""

import torch
from torch import Tensor, nn

__all__ = ["QuickDropout", "draw_kept", "use_quick_dropout"]

_LEVELS = 2**16


def draw_kept(shape: torch.Size, dropout: float) -> Tensor:
    """Draw which elements stay.

    Args:
        shape: Of the booleans returned, on CPU.
        dropout: Probability of each to go, 0 to below 1; the nearest multiple of 2**-16 below 1 is used.
    """
    count = shape.numel()
    words = torch.empty(-(-count // 4), dtype=torch.int64).random_(-(2**63), None)
    lowest_kept = min(round(dropout * _LEVELS), _LEVELS - 1) - _LEVELS // 2
    return (words.view(torch.int16)[:count] >= lowest_kept).view(shape)


class QuickDropout(nn.Module):
    """``nn.Dropout`` on CPU: elements go with probability ``p``, the others grow by 1 / (1 - p)."""

    def __init__(self, p: float) -> None:
        """Take the probability, 0 to below 1."""
        super().__init__()
        self.p = p

    def forward(self, given: Tensor) -> Tensor:
        """Return the input itself outside training."""
        if not self.training or not self.p:
            return given
        return (given * draw_kept(given.shape, self.p)).mul_(1 / (1 - self.p))


def use_quick_dropout(model: nn.Module) -> None:
    """Put ``QuickDropout`` in the place of every ``nn.Dropout`` of a model on CPU."""
    for parent in [*model.modules()]:
        for name, child in parent.named_children():
            if type(child) is nn.Dropout and child.p < 1:
                quick = QuickDropout(child.p)
                setattr(parent, name, quick.train(child.training))
