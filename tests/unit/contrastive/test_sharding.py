"""FSDP and ZeRO: what launch files ask for, what is refused, and equal calls of the model on every process."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import yaml
from accelerate.commands.launch import _validate_launch_command, launch_command_parser
from accelerate.utils.launch import prepare_multi_gpu_env
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file
from test_contrastive_trainer import H13, WORDS, train
from tiny_encoder import tiny_encoder
from two_processes import FSDP

from agentic_r.artifacts.jsonl import read_jsonl, write_jsonl
from agentic_r.contrastive.chunks import cut_further
from agentic_r.contrastive.resume import Checkpoints
from agentic_r.contrastive.sharding import fit_deepspeed, refuse_unfit_launch
from agentic_r.errors import ConfigError

ROOT = Path(__file__).parents[3]
LAUNCH_FILES = sorted((ROOT / "configs" / "launch").glob("*.yaml"))
SCRIPT = str(ROOT / "train" / "retriever_contrastive.py")


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return tiny_encoder([*WORDS, "query", "passage"], folder=tmp_path_factory.mktemp("base"), dropout=0.0)


def said_by(path: Path) -> dict[str, str]:
    """What accelerate's launcher makes of a launch file."""
    given = launch_command_parser().parse_args(["--config_file", str(path), SCRIPT, "config.yaml"])
    arguments, _, _ = _validate_launch_command(given)
    return prepare_multi_gpu_env(arguments)


@pytest.mark.parametrize("path", LAUNCH_FILES, ids=lambda path: path.stem)
def test_launch_files_are_read_by_accelerate_and_leave_the_precision_to_the_configuration(path):
    assert said_by(path)["ACCELERATE_MIXED_PRECISION"] == "no"


def test_the_two_processes_of_the_tests_are_launched_as_the_fsdp_file_says():
    said = said_by(ROOT / "configs" / "launch" / "fsdp2.yaml")
    assert {name: said[name] for name in FSDP} == FSDP


@pytest.mark.parametrize("name", ["FSDP", "DEEPSPEED"])
def test_parts_are_refused_on_cpu_where_accelerate_would_leave_them_off(base, tmp_path, monkeypatch, name):
    monkeypatch.setenv(f"ACCELERATE_USE_{name}", "true")
    with pytest.raises(ConfigError, match=rf"(?i)asks for {name}, which accelerate does on GPUs only"):
        refuse_unfit_launch()


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("FSDP_VERSION", "1", r"FSDP1; set fsdp_version: 2, as in configs/launch/fsdp2\.yaml"),
        ("FSDP_CPU_RAM_EFFICIENT_LOADING", "true", r"set fsdp_cpu_ram_efficient_loading: false"),
    ],
)
def test_settings_of_fsdp_that_cannot_be_are_refused(monkeypatch, name, value, message):
    class OnGpus:
        distributed_type = "MULTI_GPU"

    monkeypatch.setattr("agentic_r.contrastive.sharding.PartialState", OnGpus)
    for known, said in FSDP.items():
        monkeypatch.setenv(known, said)
    refuse_unfit_launch()
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=message):
        refuse_unfit_launch()


def test_a_launcher_that_says_another_precision_is_refused(base, tmp_path, monkeypatch):
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "bf16")
    with pytest.raises(ConfigError, match=r"mixed_precision bf16, contrastive\.precision says float32"):
        train(base, tmp_path)


def test_float16_is_refused_under_deepspeed(base, tmp_path, monkeypatch):
    monkeypatch.setenv("ACCELERATE_USE_DEEPSPEED", "true")
    monkeypatch.setattr("agentic_r.contrastive.trainer.refuse_unfit", lambda *_: None)  # float16 wants a GPU
    with pytest.raises(ConfigError, match="float16 cannot be used with DeepSpeed"):
        train(base, tmp_path, config=H13.model_copy(update={"precision": "float16"}))


def test_zero_3_is_refused():
    arguments = SimpleNamespace(deepspeed_plugin=SimpleNamespace(zero_stage=3, deepspeed_config={}))
    with pytest.raises(ConfigError, match=r"ZeRO-3.*use configs/launch/fsdp2\.yaml"):
        fit_deepspeed(arguments, H13)


def test_a_checkpoint_of_another_launch_is_refused_and_kept(tmp_path):
    def opened(cut_by: str) -> Checkpoints:
        return Checkpoints(tmp_path / "checkpoints", encoder=tmp_path / "encoder", identity="a", cut_by=cut_by)

    before = opened("FSDP")
    (tmp_path / "checkpoints" / "checkpoint-3").mkdir()
    before.mark_whole(3)
    with pytest.raises(ConfigError, match="checkpoint-3 was written under FSDP, this training was started under nei"):
        opened("")
    assert opened("FSDP").num_steps_done == 3


@given(st.lists(st.integers(1, 5), min_size=1, max_size=6), st.integers(1, 40))
def test_chunks_are_cut_to_a_number_and_keep_all_rows_in_order(sizes, count):
    rows = iter(range(sum(sizes)))
    chunks = [{"input_ids": torch.tensor([[next(rows)] for _ in range(size)])} for size in sizes]
    found = cut_further(chunks, count=count)
    assert len(found) == max(count, len(sizes))
    together = torch.cat([chunk["input_ids"] for chunk in found])[:, 0].tolist()
    assert together[: sum(sizes)] == list(range(sum(sizes)))
    assert set(together[sum(sizes) :]) <= {sum(sizes) - 1}  # where each has one row, the last is there once more


@pytest.mark.gpu
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="fewer than two CUDA devices")
@pytest.mark.parametrize("path", LAUNCH_FILES, ids=lambda path: path.stem)
def test_every_launch_file_trains_as_one_gpu_does(base, tmp_path, path):
    """The scripts as their users start them; two GPUs where the file asks for several."""
    if path.stem.startswith("zero"):
        pytest.importorskip("deepspeed", reason="deepspeed is not installed")
    base.save(tmp_path / "base")
    encoder = {"kind": "pretrained", "path": str(tmp_path / "base"), "query_prefix": "query: "}
    encoder |= {"passage_prefix": "passage: ", "max_query_tokens": 24, "max_passage_tokens": 32}
    write_jsonl(
        tmp_path / "pairs.jsonl",
        (
            {"query": f"w{number}", "positives": [f"w{number} w{number + 1} w9"], "negatives": [f"w{number + 2} w8 w7"]}
            for number in range(16)
        ),
    )
    losses = []
    for name, launched in (("one", []), ("several", ["--config_file", str(path)])):
        config = {
            "name": name,
            "runs": str(tmp_path),
            "instances": str(tmp_path / "pairs.jsonl"),
            "mining": None,
            "encoder": encoder,
            "contrastive": {"batch_size": 4, "epochs": 2, "min_instances": 4, "dev_share": 0.2, "dev_every": 2},
        }
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
        processes = "1" if name == "one" or path.stem == "one_gpu" else "2"
        command = ["-m", "accelerate.commands.launch", *launched, "--num_processes", processes, SCRIPT]
        subprocess.run([sys.executable, *command, str(tmp_path / f"{name}.yaml")], check=True, cwd=ROOT)
        losses.append([line["loss"] for line in read_jsonl(tmp_path / name / "retriever" / "metrics.jsonl")])
        assert load_file(tmp_path / name / "retriever" / "encoder" / "model.safetensors")
    assert losses[1] == pytest.approx(losses[0], rel=1e-3)
