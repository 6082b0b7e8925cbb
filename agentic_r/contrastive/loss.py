"""InfoNCE over explicit column identities, in float32 whatever the surrounding precision.

    loss_i = -log( exp(s_ip / t) / sum_j exp(s_ij / t) ),   s = cosine,   j over columns not masked for row i

A column is masked for a row when its passage id or its text is that of one of the row's positives; the
row's own positive column never is. The loss sees identities, not where a column came from, so columns
gathered from other ranks are treated alike. Which passages a batch holds is ``batches.py``'s business.

Shapes: B queries (rows), P passages (columns), D dimensions, K identities a row (padded by repetition).
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

__all__ = ["Identities", "InfoNce", "info_nce", "masked_columns", "masked_cross_entropy"]


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
class InfoNce:
    """The loss of one step and what it was made of.

    Attributes:
        loss: Mean over the rows that have a negative.
        row_losses_B: Loss of every row; 0 where ``counted_B`` is False, and then no part of the mean.
        counted_B: True for rows with at least one unmasked negative.
        positive_similarity: Mean cosine of the counted rows' own positives.
        negative_similarity: Mean cosine over their unmasked negatives.
    """

    loss: Tensor
    row_losses_B: Tensor
    counted_B: Tensor
    positive_similarity: Tensor
    negative_similarity: Tensor

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


def info_nce(queries_BD: Tensor, passages_PD: Tensor, *, identities: Identities, temperature: float) -> InfoNce:
    """Compute the loss; gradients flow into both arguments.

    Args:
        queries_BD: Query vectors of any floating type; normalised here.
        passages_PD: Passage vectors, alike.
        identities: Rows and columns of this step.
        temperature: Divides the cosines; above 0.

    Raises:
        ValueError: no row has an unmasked negative, so that there is nothing to learn from.

    Source: Agentic-R 1.9 (loss, temperature); masking by identity is ours, since shared passages are common
    when several turns of one question meet in a batch.
    """
    masked_BP = masked_columns(identities)
    negative_BP = (~masked_BP).scatter(1, identities.positive_B[:, None], value=False)
    counted_B = negative_BP.any(1)
    if not bool(counted_B.any()):
        raise ValueError("no row of this step has an unmasked negative; check the plan of batches before training")
    with torch.autocast(queries_BD.device.type, enabled=False):
        similarity_BP = (
            functional.normalize(queries_BD.float(), dim=1) @ functional.normalize(passages_PD.float(), dim=1).T
        )
        row_losses_B = masked_cross_entropy(similarity_BP / temperature, identities.positive_B, masked_BP)
    row_losses_B = row_losses_B.masked_fill(~counted_B, 0.0)
    with torch.no_grad():
        own_B = similarity_BP.gather(1, identities.positive_B[:, None]).squeeze(1)
        positive_similarity = own_B[counted_B].mean()
        negative_similarity = similarity_BP[negative_BP].mean()
    return InfoNce(
        loss=row_losses_B.sum() / counted_B.sum(),
        row_losses_B=row_losses_B,
        counted_B=counted_B,
        positive_similarity=positive_similarity,
        negative_similarity=negative_similarity,
    )
