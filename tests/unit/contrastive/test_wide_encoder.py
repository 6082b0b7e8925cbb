"""A wide encoder is trained, measured and encodes by oneDNN as it does by torch's own multiplication."""

import random

import numpy as np
import pytest
import torch
from tiny_encoder import tiny_encoder

from agentic_r.config import ContrastiveConfig
from agentic_r.contrastive.trainer import train_retriever
from agentic_r.encoder.bi_encoder import BiEncoder
from agentic_r.types import Passage, TrainingInstance

pytestmark = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="needs a torch with oneDNN")

WORDS = [f"w{number}" for number in range(40)]


@pytest.mark.parametrize("computed_again", [{}, {"activation_bytes": 0}, {"gradient_checkpointing": True}])
def test_training_with_dev_evaluations_ends_with_the_same_vectors(monkeypatch, tmp_path, computed_again):
    parts = tmp_path / "base"
    base = tiny_encoder([*WORDS, "query", "passage"], folder=parts, width=384, dropout=0.0, lengths=(24, 40))
    draw = random.Random(0)
    passages = {f"p{row}": Passage(f"p{row}", "d", "", " ".join(draw.choices(WORDS, k=30))) for row in range(24)}
    instances = [
        TrainingInstance(f"i{row}", f"q{row}", "", passages[f"p{row}"].text[:20], f"p{row}", (f"p{row + 8}",))
        for row in range(8)
    ]
    config = ContrastiveConfig(batch_size=4, epochs=1, min_instances=4, dev_share=0.25, dev_every=1, **computed_again)
    vectors = {}
    for name, is_quicker in (("ours", True), ("torch", False)):
        monkeypatch.setattr("agentic_r.onednn.is_quicker_here", lambda answer=is_quicker: answer)
        folder = tmp_path / name
        train_retriever(
            base, instances, passages, config, folder=folder, seed=0, threads=1, progress=lambda done, total: None
        )
        vectors[name] = BiEncoder.load(folder / "encoder").encode_passages([*passages.values()])
    np.testing.assert_allclose(vectors["ours"], vectors["torch"], atol=1e-4)
    assert not np.array_equal(vectors["ours"], vectors["torch"])  # the sums of one were made in another order
