"""Multiplication by oneDNN, on machines where torch's usual library for float32 is slow.

Torch multiplies float32 matrices on x86 by MKL, which leaves half the speed of an AMD processor with AVX-512 unused;
oneDNN, which comes with torch, does not (docs/log.md). The value is the same but for the order of its sums. Owns the
choice of machines, models and sizes for which it pays.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.autograd.function import BackwardCFunction, FunctionCtx
from torch.nn import functional

__all__ = ["is_quicker_here", "quick_linear"]

# Measured: from here on it is quicker; the larger number of rows where a backward pass follows.
_MIN_WIDTH, _MIN_ROWS, _MIN_ROWS_WITH_GRADIENT = 384, 64, 256
_ROWS_STEP, _MIN_ROWS_LAID_OUT = 64, 8
_CPU_FILE = Path("/proc/cpuinfo")


@contextmanager
def quick_linear(model: nn.Module, *, weights_stay: bool = False) -> Iterator[None]:
    """Let the model's wide linear layers multiply by oneDNN meanwhile, if that is quicker here.

    The layers themselves are told, so that what is computed again in a backward pass is computed the same way. Contexts
    may nest; the outermost one's way is taken.

    Args:
        model: Whose layers.
        weights_stay: No weight is written meanwhile. Each is then laid out for oneDNN once, in a copy, which also pays
            for few rows; where gradients are asked for, torch multiplies.
    """
    told = [layer for layer in model.modules() if type(layer) is nn.Linear and _fits(layer.weight)]
    told = [layer for layer in told if "forward" not in vars(layer)] if is_quicker_here() else []
    for layer in told:
        multiply: Callable[[Tensor], Tensor] = _LaidOut(layer) if weights_stay else partial(_multiply, layer)
        layer.forward = multiply  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        for layer in told:
            vars(layer).pop("forward", None)


@cache
def is_quicker_here(cpu_file: Path = _CPU_FILE, *, capability: str | None = None) -> bool:
    """Say whether this machine is an AMD processor with AVX-512.

    Args:
        cpu_file: Where Linux describes the processor; without it the answer is no.
        capability: What torch found; asked of it by default.
    """
    if (capability or torch.backends.cpu.get_cpu_capability()) != "AVX512" or not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    return cpu_file.exists() and "AuthenticAMD" in cpu_file.read_text(encoding="utf-8", errors="replace")


def _multiply(layer: nn.Linear, given: Tensor) -> Tensor:
    """Return what the layer returns: many rows of float32 by oneDNN, all else as it would be."""
    min_rows = _MIN_ROWS_WITH_GRADIENT if torch.is_grad_enabled() else _MIN_ROWS
    is_long = given.numel() >= min_rows * layer.in_features
    if not (is_long and _is_alike(given, layer)):
        return functional.linear(given, layer.weight, layer.bias)
    vectors: Tensor = _Multiplication.apply(given, layer.weight, layer.bias)  # type: ignore[no-untyped-call]
    return vectors


def _is_alike(given: Tensor, layer: nn.Linear) -> bool:
    """Say whether layer and input are still of the kind that oneDNN is for."""
    is_same = given.dtype is layer.weight.dtype and given.device == layer.weight.device
    return is_same and _fits(layer.weight) and not torch.is_autocast_enabled("cpu")


def _fits(weight: Tensor) -> bool:
    is_matrix = weight.device.type == "cpu" and weight.dtype is torch.float32 and weight.ndim == 2
    return is_matrix and min(weight.shape) >= _MIN_WIDTH


class _LaidOut:
    """Stands for the ``forward`` of a layer whose weight stays."""

    def __init__(self, layer: nn.Linear) -> None:
        self._layer = layer
        self._weight = torch.ops.mkldnn._reorder_linear_weight(layer.weight.detach(), _ROWS_STEP)

    def __call__(self, given: Tensor) -> Tensor:
        """Return what the layer returns: by oneDNN for all but very few rows of float32 without gradients."""
        layer, num_rows = self._layer, given.numel() // given.shape[-1]
        if num_rows < _MIN_ROWS_LAID_OUT or torch.is_grad_enabled() or not _is_alike(given, layer):
            return functional.linear(given, layer.weight, layer.bias)
        rows = _filled(given, _ROWS_STEP if num_rows > _ROWS_STEP else _MIN_ROWS_LAID_OUT)
        found: Tensor = torch.ops.mkldnn._linear_pointwise(rows, self._weight, layer.bias, "none", [], "")
        return found[:num_rows].reshape(*given.shape[:-1], -1)


class _Multiplication(torch.autograd.Function):
    """By oneDNN both ways, keeping the input as it was given: layers that read the same input share it."""

    @staticmethod
    def forward(ctx: FunctionCtx, given: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(given, weight)
        found = functional.linear(_rows(given), weight, bias).to_dense()
        return found[: given.numel() // given.shape[-1]].reshape(*given.shape[:-1], -1)

    @staticmethod
    def backward(ctx: BackwardCFunction, gradient: Tensor) -> tuple[Tensor | None, ...]:
        kept: Sequence[Tensor] = ctx.saved_tensors
        given, weight = kept
        found = torch.ops.aten.mkldnn_linear_backward(_rows(given), _rows(gradient), weight, list(ctx.needs_input_grad))
        of_given, of_weight, of_bias = (
            _dense(one) if is_needed else None for one, is_needed in zip(found, ctx.needs_input_grad, strict=True)
        )
        if of_given is not None:
            of_given = of_given[: given.numel() // given.shape[-1]].reshape(given.shape)
        return of_given, of_weight, of_bias


def _dense(found: Tensor) -> Tensor:
    return found.to_dense() if found.is_mkldnn else found


def _rows(given: Tensor) -> Tensor:
    """Return (..., D) as oneDNN's own (rows, D), filled up."""
    return _filled(given, _ROWS_STEP).to_mkldnn()


def _filled(given: Tensor, step: int) -> Tensor:
    """Return (..., D) as (rows, D) with rows of zeros up to a multiple: oneDNN keeps a program for every number."""
    rows = given.reshape(-1, given.shape[-1])
    return functional.pad(rows, (0, 0, 0, -len(rows) % step))
