"""Several processes: who encodes what, and that two of them take the steps of one."""

import json
import os
import socket
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file
from tiny_encoder import tiny_encoder

from agentic_r.artifacts.jsonl import read_jsonl
from agentic_r.config import ContrastiveConfig
from agentic_r.contrastive.ranks import Ranks, deal_out
from agentic_r.contrastive.trainer import train_retriever
from agentic_r.encoder.bi_encoder import BiEncoder
from agentic_r.types import Passage, TrainingInstance

WORDS = [f"w{number}" for number in range(60)]


@settings(deadline=None)
@given(st.lists(st.integers(0, 500), min_size=4, max_size=40), st.integers(1, 4))
def test_every_text_goes_to_one_process_and_loads_differ_by_one_text_at_most(lengths, world):
    shares = deal_out(lengths, world=world)
    assert sorted(text for share in shares for text in share) == list(range(len(lengths)))
    sizes = [len(share) for share in shares]
    assert max(sizes) - min(sizes) <= 1
    totals = [sum(lengths[text] for text in share) for share in shares]
    assert all(before - after <= max(lengths) for before, after in pairwise(totals))


def test_one_process_gathers_its_vectors_in_the_order_of_the_texts():
    vectors = torch.tensor([[1.0], [2.0], [3.0]], requires_grad=True)
    assert Ranks().gather(vectors, [[2, 0, 1]]).tolist() == [[2.0], [3.0], [1.0]]


def samples():
    """Queries that share passages, a text under two ids, another positive: what masking must see across processes."""
    passages = {
        f"p{number}": Passage(f"p{number}", "d", "", " ".join(WORDS[number : 2 * number + 4])) for number in range(14)
    }
    passages["copy"] = Passage("copy", "d", "", passages["p0"].text.upper())
    instances = [
        TrainingInstance(
            f"i{number}",
            "q",
            "w1 w2",
            f"w{number} w3",
            f"p{number // 2}",
            ("copy", "p12", f"p{number + 6}"),
            other_positives=("p13",) if number == 3 else (),
        )
        for number in range(8)
    ]
    return instances, passages


CONFIG = ContrastiveConfig(batch_size=4, epochs=1, min_instances=1, save_every=1, learning_rate=1e-3, warmup_ratio=0.0)

CHILD = """
import os, sys
from pathlib import Path
sys.path[:0] = sys.argv[3:]
from test_contrastive_ranks import CONFIG, samples
from agentic_r.contrastive.trainer import train_retriever
from torch import distributed
instances, passages = samples()
train_retriever(Path(sys.argv[1]), instances, passages, CONFIG, folder=Path(sys.argv[2]), seed=5, threads=1,
                progress=lambda done, total: None)
distributed.barrier()
sys.stdout.flush()
os._exit(0)  # gloo's threads sometimes abort an ordinary exit
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.mark.slow
@pytest.mark.enable_socket
def test_two_processes_take_the_steps_of_one(tmp_path):
    """Without dropout: losses, gradient norms and weights after two steps are those of one process."""
    base = tmp_path / "base"
    made = tiny_encoder([*WORDS, "query", "passage"], folder=tmp_path / "parts", dropout=0.0)
    made.save(base)
    instances, passages = samples()
    one = tmp_path / "one"
    train_retriever(
        BiEncoder.load(base), instances, passages, CONFIG, folder=one, seed=5, threads=1, progress=lambda *_: None
    )
    two = tmp_path / "two"
    folders = [str(Path(__file__).parent), *(path for path in sys.path if path)]
    port = str(free_port())
    children = [
        subprocess.Popen(
            [sys.executable, "-c", CHILD, str(base), str(two), *folders],
            env={
                **os.environ,
                "RANK": str(rank),
                "LOCAL_RANK": str(rank),
                "WORLD_SIZE": "2",
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": port,
                "ACCELERATE_USE_CPU": "true",
                "OMP_NUM_THREADS": "1",
                "HF_HUB_OFFLINE": "1",
            },
        )
        for rank in range(2)
    ]
    assert [child.wait() for child in children] == [0, 0]
    alone, together = (list(read_jsonl(folder / "metrics.jsonl")) for folder in (one, two))
    assert [line["instances"] for line in together] == [line["instances"] for line in alone]
    for key in ("loss", "grad_norm", "positive_similarity", "negative_similarity"):
        assert [line[key] for line in together] == pytest.approx([line[key] for line in alone], rel=1e-5), key
    weights = [load_file(folder / "encoder" / "model.safetensors") for folder in (one, two)]
    start = load_file(base / "model.safetensors")
    for name, weight in weights[0].items():
        torch.testing.assert_close(weights[1][name], weight, atol=2e-5, rtol=1e-4)
    assert max(float((weights[0][name] - start[name]).abs().max()) for name in start) > 5e-4
    assert not (two / "checkpoints").exists()
    assert json.loads((two / "encoder" / "agentic_r.json").read_text()) == json.loads(
        (one / "encoder" / "agentic_r.json").read_text()
    )
