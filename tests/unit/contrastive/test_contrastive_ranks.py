"""Several processes: who encodes what, and that two of them take the steps of one."""

from itertools import pairwise
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file
from tiny_encoder import tiny_encoder
from two_processes import CONFIG, DIED, LAUNCHES, WORDS, dev_set, launch, samples

from agentic_r.artifacts.jsonl import read_jsonl
from agentic_r.contrastive.ranks import Ranks, deal_out
from agentic_r.contrastive.trainer import train_retriever


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


@pytest.fixture(scope="module")
def base(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("base")
    made = tiny_encoder([*WORDS, "query", "passage"], folder=folder / "parts", dropout=0.0, layers=2)
    made.save(folder / "encoder")
    return folder / "encoder"


# One text a chunk, and an odd number of texts: the processes have unequal work, and chunks are computed twice.
CUT_BY = {"torchrun": "", "fsdp2": "FSDP"}
CHUNKED = CONFIG.model_copy(update={"mini_batch_size": 1, "activation_bytes": 0, "dev_every": 1, "epochs": 2})


@pytest.fixture(scope="module")
def alone(base, tmp_path_factory) -> Path:
    """What one process makes."""
    instances, passages = samples()
    folder = tmp_path_factory.mktemp("one")
    train_retriever(
        base, instances, passages, CHUNKED, folder=folder, seed=5, threads=1, progress=lambda *_: None, dev=dev_set()
    )
    return folder


def assert_equal(folder: Path, alone: Path, base: Path) -> None:
    """Losses, gradient norms, dev measures and weights are those of one process."""
    ours, expected = (list(read_jsonl(one / "metrics.jsonl")) for one in (folder, alone))
    assert [line["instances"] for line in ours] == [line["instances"] for line in expected]
    for key in ("loss", "grad_norm", "positive_similarity", "negative_similarity"):
        assert [line[key] for line in ours] == pytest.approx([line[key] for line in expected], rel=1e-4), key
    assert [line["values"] for line in read_jsonl(folder / "dev.jsonl")] == [
        pytest.approx(line["values"]) for line in read_jsonl(alone / "dev.jsonl")
    ]
    weights = [load_file(one / "encoder" / "model.safetensors") for one in (folder, alone)]
    start = load_file(base / "model.safetensors")
    assert weights[0].keys() == weights[1].keys()
    for name, weight in weights[1].items():
        torch.testing.assert_close(weights[0][name], weight, atol=2e-5, rtol=1e-4)
    assert max(float((weights[1][name] - start[name]).abs().max()) for name in start) > 5e-4
    assert not (folder / "checkpoints").exists()
    assert (folder / "encoder" / "agentic_r.json").read_text() == (alone / "encoder" / "agentic_r.json").read_text()


@pytest.mark.slow
@pytest.mark.enable_socket
@pytest.mark.parametrize("kind", LAUNCHES)
def test_two_processes_take_the_steps_of_one_and_go_on_after_a_kill(base, alone, tmp_path, kind):
    """Without dropout."""
    if kind.startswith("zero"):
        pytest.importorskip("deepspeed", reason="deepspeed is not installed")
    assert launch(kind, base, tmp_path, config=CHUNKED, die_after=3) == [DIED, DIED]
    checkpoint = tmp_path / "checkpoints" / "checkpoint-2"
    assert (checkpoint / "whole").read_text() == CUT_BY.get(kind, "DeepSpeed")
    assert (checkpoint / "pytorch_model_fsdp_0").is_dir() is (kind == "fsdp2")  # parts, as torch writes them
    assert launch(kind, base, tmp_path, config=CHUNKED) == [0, 0]
    assert_equal(tmp_path, alone, base)


@pytest.mark.slow
@pytest.mark.enable_socket
@pytest.mark.parametrize("kind", ["fsdp2", "zero2"])
def test_vectors_are_as_fine_under_bfloat16_in_parts_as_in_one_process(base, tmp_path, kind):
    """Vectors in bfloat16, as FSDP and ZeRO make them by themselves, change the first loss by a percent."""
    if kind.startswith("zero"):
        pytest.importorskip("deepspeed", reason="deepspeed is not installed")
    config = CONFIG.model_copy(update={"precision": "bfloat16"})
    instances, passages = samples()
    one, two = tmp_path / "one", tmp_path / "two"
    train_retriever(base, instances, passages, config, folder=one, seed=5, threads=1, progress=lambda *_: None)
    assert launch(kind, base, two, config=config) == [0, 0]
    losses = [[line["loss"] for line in read_jsonl(folder / "metrics.jsonl")] for folder in (two, one)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)
    weights = load_file(two / "encoder" / "model.safetensors").values()
    assert {weight.dtype for weight in weights} == {torch.float32}
    assert any(not torch.equal(weight, weight.bfloat16().float()) for weight in weights)
