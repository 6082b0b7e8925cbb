"""InfoNCE over explicit column identities, in float32 (or float64) whatever the surrounding precision.

    loss_i = -log( exp(s_ip / t) / sum_j exp(s_ij / t) ),   s = cosine,   j over columns not masked for row i

A column is masked for a row when its passage id or its text is that of one of the row's positives; the
row's own positive column never is. The loss sees identities, not where a column came from, so columns
gathered from other ranks are treated alike. Which passages a batch holds is ``batches.py``'s business.

Three things may be added, all off by default: a margin above which a column counts as a likely false negative, soft
targets from graded relevance, and the mean over shortened vectors (Matryoshka).

Shapes: B queries (rows), P passages (columns), D dimensions, K identities a row (padded by repetition).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional

__all__ = [
    "Identities",
    "InfoNce",
    "SoftTargets",
    "info_nce",
    "masked_columns",
    "masked_cross_entropy",
    "matryoshka_info_nce",
]


@dataclass(frozen=True, slots=True)
class Identities:
    """Who the rows and columns are, as 63-bit hashes.

    Attributes:
        positive_B: Column of each row's own positive.
        row_ids_BK: Ids of the row's positive and of its other positives.
        row_texts_BK: Hashes of those passages' normalised texts.
        column_ids_P: Ids of the columns' passages.
        column_texts_P: Hashes of their normalised texts.
    """

    positive_B: Tensor
    row_ids_BK: Tensor
    row_texts_BK: Tensor
    column_ids_P: Tensor
    column_texts_P: Tensor


@dataclass(frozen=True, slots=True)
class SoftTargets:
    """What the columns should receive, beside the hard target.

    Attributes:
        share_BP: Target distribution of each row over the columns; all 0 for a row without graded passages.
        weight: Share of the soft loss, 0 to 1, in rows that have a distribution.
    """

    share_BP: Tensor
    weight: float


@dataclass(frozen=True, slots=True)
class InfoNce:
    """The loss of one step and what it was made of.

    Attributes:
        loss: Mean over the rows that have a negative.
        row_losses_B: Loss of every row; 0 where ``counted_B`` is False, and then no part of the mean.
        counted_B: True for rows with at least one unmasked negative.
        positive_similarity: Mean cosine of the counted rows' own positives.
        negative_similarity: Mean cosine over their unmasked negatives.
        num_likely_positives: Negatives left out by the margin, over all rows.
    """

    loss: Tensor
    row_losses_B: Tensor
    counted_B: Tensor
    positive_similarity: Tensor
    negative_similarity: Tensor
    num_likely_positives: int = 0

    @property
    def num_rows_without_negatives(self) -> int:
        """Rows left out of the mean."""
        return int((~self.counted_B).sum())


def masked_columns(identities: Identities) -> Tensor:
    """Return (B, P), True where a column may not be a negative of the row."""
    same_id_BP = (identities.column_ids_P[None, :, None] == identities.row_ids_BK[:, None, :]).any(-1)
    same_text_BP = (identities.column_texts_P[None, :, None] == identities.row_texts_BK[:, None, :]).any(-1)
    masked_BP = same_id_BP | same_text_BP
    return masked_BP.scatter(1, identities.positive_B[:, None], value=False)


def masked_cross_entropy(logits_BP: Tensor, positive_B: Tensor, masked_BP: Tensor) -> Tensor:
    """Return (B,) negative log-likelihoods of the positives among the columns that are not masked."""
    kept_BP = logits_BP.masked_fill(masked_BP, -torch.inf)
    return kept_BP.logsumexp(1) - kept_BP.gather(1, positive_B[:, None]).squeeze(1)


def info_nce(
    queries_BD: Tensor,
    passages_PD: Tensor,
    *,
    identities: Identities,
    temperature: float,
    false_negative_margin: float | None = None,
    soft_targets: SoftTargets | None = None,
) -> InfoNce:
    """Compute the loss; gradients flow into both arguments.

    Args:
        queries_BD: Query vectors of any floating type; normalised here.
        passages_PD: Passage vectors, alike.
        identities: Rows and columns of this step.
        temperature: Divides the cosines; above 0.
        false_negative_margin: A negative whose cosine is above that of the row's positive by more than this is
            left out, as a likely unlabelled positive; None leaves none out. A step in which that leaves no row a
            negative has a loss that is not a number: the trainer skips and counts it.
        soft_targets: Mixed with the hard target: (1 - w) NLL + w cross-entropy against the row's distribution.

    Raises:
        ValueError: no row has an unmasked negative, so that there is nothing to learn from.

    Source: Agentic-R 1.9 (loss, temperature); masking by identity is ours, since shared passages are common
    when several turns of one question meet in a batch. Margin: Qwen3 Embedding (arXiv 2506.05176), section 3, where
    it is 0.1. Soft targets: our choice.
    """
    masked_BP = masked_columns(identities)
    own_BP = torch.zeros_like(masked_BP).scatter(1, identities.positive_B[:, None], value=True)
    if bool((masked_BP | own_BP).all()):
        raise ValueError("no row of this step has an unmasked negative; check the plan of batches before training")
    with torch.autocast(queries_BD.device.type, enabled=False):
        similarity_BP = _unit(queries_BD) @ _unit(passages_PD).T
        own_B = similarity_BP.detach().gather(1, identities.positive_B[:, None]).squeeze(1)
        likely_BP = torch.zeros_like(masked_BP)
        if false_negative_margin is not None:
            likely_BP = (similarity_BP.detach() > own_B[:, None] + false_negative_margin) & ~masked_BP
        masked_BP = masked_BP | likely_BP
        negative_BP = ~(masked_BP | own_BP)
        counted_B = negative_BP.any(1)
        row_losses_B = masked_cross_entropy(similarity_BP / temperature, identities.positive_B, masked_BP)
        if soft_targets is not None:
            row_losses_B = _softened(row_losses_B, similarity_BP / temperature, masked_BP, soft_targets)
    row_losses_B = row_losses_B.masked_fill(~counted_B, 0.0)
    return InfoNce(
        loss=row_losses_B.sum() / counted_B.sum(),
        row_losses_B=row_losses_B,
        counted_B=counted_B,
        positive_similarity=own_B[counted_B].mean(),
        negative_similarity=similarity_BP.detach()[negative_BP].mean(),
        num_likely_positives=int(likely_BP.sum()),
    )


def matryoshka_info_nce(
    queries_BD: Tensor,
    passages_PD: Tensor,
    *,
    dimensions: Sequence[int],
    identities: Identities,
    temperature: float,
    false_negative_margin: float | None = None,
    soft_targets: SoftTargets | None = None,
) -> InfoNce:
    """Return ``info_nce`` of the whole vectors, its loss averaged with those of their first ``dimensions`` components.

    Source: Matryoshka Representation Learning (arXiv 2205.13147), equal weights.
    """
    results = [
        info_nce(
            queries_BD[:, :width],
            passages_PD[:, :width],
            identities=identities,
            temperature=temperature,
            false_negative_margin=false_negative_margin,
            soft_targets=soft_targets,
        )
        for width in (queries_BD.shape[1], *dimensions)
    ]
    return replace(
        results[0],
        loss=torch.stack([item.loss for item in results]).mean(),
        row_losses_B=torch.stack([item.row_losses_B for item in results]).mean(0),
    )


def _unit(vectors_ND: Tensor) -> Tensor:
    """Normalise rows, in float32 where they come in half precision."""
    wide_ND = vectors_ND if vectors_ND.dtype == torch.float64 else vectors_ND.float()
    return functional.normalize(wide_ND, dim=1)


def _softened(row_losses_B: Tensor, logits_BP: Tensor, masked_BP: Tensor, targets: SoftTargets) -> Tensor:
    """Mix in the cross-entropy against the target distribution, over the columns that are not masked."""
    share_BP = targets.share_BP.to(logits_BP.dtype).masked_fill(masked_BP, 0.0)
    total_B = share_BP.sum(1)
    graded_B = total_B > 0
    share_BP = share_BP / total_B.clamp(min=torch.finfo(logits_BP.dtype).tiny)[:, None]
    log_shares_BP = logits_BP.masked_fill(masked_BP, -torch.inf).log_softmax(1).masked_fill(masked_BP, 0.0)
    soft_B = -(share_BP * log_shares_BP).sum(1)
    mixed_B = (1 - targets.weight) * row_losses_B + targets.weight * soft_B
    return torch.where(graded_B, mixed_B, row_losses_B)
