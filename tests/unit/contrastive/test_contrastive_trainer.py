"""Training end to end on a BERT of width 32: resume, refusals, skipped steps, and that it learns."""

import copy
import os
import random
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer
from tiny_encoder import tiny_encoder

from agentic_r.artifacts.fingerprint import fingerprint_strings
from agentic_r.artifacts.jsonl import read_jsonl
from agentic_r.config import ContrastiveConfig
from agentic_r.contrastive.batches import plan_steps
from agentic_r.contrastive.trainer import train_retriever
from agentic_r.encoder.bi_encoder import BiEncoder
from agentic_r.errors import CollapseError, ConfigError, DataError
from agentic_r.types import Passage, QueryText, TrainingInstance

WORDS = [f"w{number}" for number in range(60)]
H13 = ContrastiveConfig(batch_size=2, epochs=3, min_instances=4, save_every=3, learning_rate=1e-3)


class Stopped(Exception):
    """Stands for a kill."""


def silent(done: int, total: int) -> None:
    pass


def stop_at(step: int):
    def progress(done: int, total: int) -> None:
        if done == step:
            raise Stopped

    return progress


def ten_samples() -> tuple[list[TrainingInstance], dict[str, Passage]]:
    draw = random.Random(0)
    passages = {
        f"p{number}": Passage(f"p{number}", f"d{number}", "", " ".join(draw.choices(WORDS, k=10)))
        for number in range(22)
    }
    instances = [
        TrainingInstance(
            f"i{number}", "q", "w1 w2", f"w{number} w3", f"p{number}", (f"p{number + 11}", f"p{number + 12}")
        )
        for number in range(10)
    ]
    return instances, passages


@pytest.fixture(scope="module")
def base(tmp_path_factory) -> BiEncoder:
    return tiny_encoder([*WORDS, "query", "passage"], folder=tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="module")
def base_folder(base, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("saved") / "encoder"
    base.save(folder)
    return folder


def train(start, folder: Path, *, config=H13, instances=None, passages=None, seed=7, progress=silent):
    given, known = ten_samples()
    return train_retriever(
        start,
        given if instances is None else instances,
        known if passages is None else passages,
        config,
        folder=folder,
        seed=seed,
        threads=1,
        progress=progress,
    )


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "encoder" / "model.safetensors")


def equal(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


@pytest.fixture(scope="module")
def unbroken(base, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("unbroken")
    train(base, folder)
    return folder


@pytest.mark.parametrize("save_every", [3, 7])
def test_h13_a_run_stopped_after_step_7_ends_like_the_unbroken_one(base, unbroken, tmp_path, save_every):
    config = H13.model_copy(update={"save_every": save_every})  # resumes from step 6, or from step 7
    with pytest.raises(Stopped):
        train(base, tmp_path, config=config, progress=stop_at(7 if save_every == 3 else 8))
    second = tmp_path.with_name(tmp_path.name + "-again")
    shutil.copytree(tmp_path, second)
    for folder in (tmp_path, second):  # the second resume from the same checkpoint
        seen: list[int] = []
        train(base, folder, config=config, progress=lambda done, total, seen=seen: seen.append(done))
        assert seen == list(range(6 if save_every == 3 else 7, 16))
        assert (folder / "metrics.jsonl").read_bytes() == (unbroken / "metrics.jsonl").read_bytes()
        assert equal(weights(folder), weights(unbroken))


def test_h13_the_steps_are_those_of_the_plan(unbroken):
    instances, _ = ten_samples()
    plan = plan_steps(10, batch_size=2, epochs=3, seed=7)
    recorded = [line["instances"] for line in read_jsonl(unbroken / "metrics.jsonl")]
    assert recorded == [fingerprint_strings(instances[row].id for row in rows) for rows in plan]


def test_h13_the_learning_rate_warms_up_and_falls_linearly(unbroken):
    rates = [line["learning_rate"] for line in read_jsonl(unbroken / "metrics.jsonl")]
    # 15 steps, warm-up ceil(0.1 x 15) = 2: 0, 1/2, then 13/13, 12/13, ... 1/13 of 1e-3
    expected = [0.0, 0.5e-3, *[1e-3 * left / 13 for left in range(13, 0, -1)]]
    assert rates == pytest.approx(expected)


CHILD = """
import os, signal, sys
from pathlib import Path
sys.path[:0] = sys.argv[3:]
from test_contrastive_trainer import train
def kill(done, total):
    if done == 8:
        os.kill(os.getpid(), signal.SIGKILL)
train(Path(sys.argv[1]), Path(sys.argv[2]), progress=kill)
"""


@pytest.mark.slow
def test_h13_a_killed_process_leaves_work_that_is_finished_exactly(base_folder, unbroken, tmp_path):
    folders = [str(Path(__file__).parent), *(path for path in sys.path if path)]
    command = [sys.executable, "-c", CHILD, str(base_folder), str(tmp_path), *folders]
    done = subprocess.run(command, check=False, env={**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"})
    assert done.returncode == -signal.SIGKILL
    assert not (tmp_path / "encoder").exists()
    train(base_folder, tmp_path)
    assert equal(weights(tmp_path), weights(unbroken))


def test_a_half_written_checkpoint_is_not_gone_on_from(base, unbroken, tmp_path):
    with pytest.raises(Stopped):
        train(base, tmp_path, progress=stop_at(8))
    newest = tmp_path / "checkpoints" / "checkpoint-6"
    (newest / "whole").unlink()
    (newest / "optimizer.pt").unlink()
    seen: list[int] = []
    train(base, tmp_path, progress=lambda done, total: seen.append(done))
    assert seen[0] == 3
    assert equal(weights(tmp_path), weights(unbroken))


def test_a_log_shorter_than_its_checkpoint_is_refused(base, tmp_path):
    with pytest.raises(Stopped):
        train(base, tmp_path, progress=stop_at(8))
    (tmp_path / "metrics.jsonl").write_text("")
    with pytest.raises(DataError, match="0 lines, but the checkpoint beside it is of step 6"):
        train(base, tmp_path)


def test_checkpoints_of_other_settings_are_not_gone_on_from(base, tmp_path):
    with pytest.raises(Stopped):
        train(base, tmp_path, progress=stop_at(8))
    seen: list[int] = []
    train(base, tmp_path, seed=8, progress=lambda done, total: seen.append(done))
    assert seen[0] == 0
    assert len(list(read_jsonl(tmp_path / "metrics.jsonl"))) == 15


def test_the_base_is_left_as_it_is(base, tmp_path):
    before = base.fingerprint
    train(base, tmp_path)
    assert base.fingerprint == before
    assert BiEncoder.load(tmp_path / "encoder").fingerprint != before


def test_a_folder_as_base_gives_the_same_as_the_encoder_in_memory(base_folder, unbroken, tmp_path):
    train(base_folder, tmp_path)
    assert equal(weights(tmp_path), weights(unbroken))


@pytest.mark.parametrize(("asked", "kept"), [(None, "question_query"), ("query", "query")])
def test_the_trained_encoder_reads_the_format_that_it_was_trained_in(base_folder, tmp_path, asked, kept):
    train(base_folder, tmp_path, config=H13.model_copy(update={"query_format": asked}))
    trained = BiEncoder.load(tmp_path / "encoder")
    assert trained.settings.query_format == kept
    text = trained.format_query(QueryText("w3", question="w1"))
    assert ("w1" in text) is (kept == "question_query")
    assert BiEncoder.load(base_folder).settings.query_format == "question_query"


def test_the_format_changes_what_is_learned(base, unbroken, tmp_path):
    train(base, tmp_path, config=H13.model_copy(update={"query_format": "query"}))
    assert not equal(weights(tmp_path), weights(unbroken))


def test_only_the_encoder_its_mark_and_the_metrics_remain(unbroken):
    assert sorted(path.name for path in unbroken.iterdir()) == ["encoder", "metrics.jsonl", "trained.json"]


def test_too_few_instances_keep_the_base_and_say_so(base, tmp_path):
    summary = train(base, tmp_path, config=H13.model_copy(update={"min_instances": 11}))
    assert summary.trained is False
    assert summary.encoder is None
    assert summary.reason == (
        "10 instances are fewer than contrastive.min_instances 11: nothing was trained, the base encoder is kept"
    )
    assert list(tmp_path.iterdir()) == []


def test_h12_no_negatives_at_all_are_refused_before_the_first_step(base, tmp_path):
    lone = [replace(instance, negatives=()) for instance in ten_samples()[0]]
    with pytest.raises(ConfigError, match=r"contrastive\.batch_size 1 leaves 10 of 10"):
        train(base, tmp_path, instances=lone, config=H13.model_copy(update={"batch_size": 1}))
    assert not (tmp_path / "metrics.jsonl").exists()


def test_three_steps_in_a_row_that_are_not_finite_stop_training(base, tmp_path):
    broken = BiEncoder(SentenceTransformer(modules=list(base_copy(base)), device="cpu"), base.settings)
    with torch.no_grad():
        next(broken.model.parameters()).fill_(float("nan"))
    with pytest.raises(CollapseError, match="steps 1 to 3 gave no finite loss"):
        train(broken, tmp_path)
    lines = list(read_jsonl(tmp_path / "metrics.jsonl"))
    assert [line["state"] for line in lines] == ["skipped"] * 3
    assert [line["loss"] for line in lines] == [None] * 3


def base_copy(encoder: BiEncoder):
    return copy.deepcopy(encoder.model).children()


def test_a_step_that_is_not_finite_is_skipped_and_counted(base, tmp_path):
    """Word w59 has a NaN vector and stands in one passage alone: its steps are skipped, others train on."""
    _, passages = ten_samples()
    passages = {name: replace(item, text=item.text.replace("w59", "w58")) for name, item in passages.items()}
    passages["p4"] = replace(passages["p4"], text="w59 w1")
    broken = BiEncoder(SentenceTransformer(modules=list(base_copy(base)), device="cpu"), base.settings)
    table = broken.model.transformers_model.get_input_embeddings()
    with torch.no_grad():
        table.weight[broken.model.tokenizer.convert_tokens_to_ids("w59")] = float("nan")
    summary = train(broken, tmp_path, passages=passages)
    assert summary.num_steps_skipped == 3  # i4's positive, once an epoch
    after = weights(tmp_path)
    finite = {name: bool(torch.isfinite(value).all()) for name, value in after.items()}
    assert [name for name, whole in finite.items() if not whole] == [
        name for name in after if "word_embeddings" in name
    ]


def pairs(
    seed: int, *, num_words: int = 16
) -> tuple[list[TrainingInstance], dict[str, Passage], list[tuple[str, str]]]:
    """Made-up synonyms: a query uses one word of each pair, its passage the other; filler words are common to all."""
    draw = random.Random(seed)
    synonyms = {f"a{number}": f"b{number}" for number in range(num_words)}
    passages, instances, held_out = {}, [], []
    for number in range(144):
        first, second = draw.sample(sorted(synonyms), 2)
        text = [synonyms[first], synonyms[second], *draw.choices(WORDS, k=3)]
        draw.shuffle(text)
        passages[f"p{number}"] = Passage(f"p{number}", f"d{number}", "", " ".join(text))
        query = f"{first} {second} {draw.choice(WORDS)}"
        if number < 120:
            negatives = tuple(f"p{(number + step) % 120}" for step in (5, 11, 17))
            instances.append(TrainingInstance(f"i{number}", f"q{number}", "", query, f"p{number}", negatives))
        else:
            held_out.append((query, f"p{number}"))
    return instances, passages, held_out


def reciprocal_rank(encoder: BiEncoder, passages: dict[str, Passage], held_out: list[tuple[str, str]]) -> float:
    """Mean reciprocal rank of the right one among all 144 passages."""
    names = sorted(passages)
    passages_PD = encoder.encode_passages([passages[name] for name in names])
    queries_BD = encoder.encode_queries([QueryText(query) for query, _ in held_out])
    ranks = []
    for similarities, (_, right) in zip(queries_BD @ passages_PD.T, held_out, strict=True):
        ranks.append(1 + int((similarities > similarities[names.index(right)]).sum()))
    return float(np.mean([1 / rank for rank in ranks]))


LEARNING = ContrastiveConfig(batch_size=16, epochs=15, learning_rate=5e-3)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_it_learns_synonyms_and_shuffled_labels_teach_nothing(tmp_path, seed):
    instances, passages, held_out = pairs(seed)
    words = [*WORDS, "query", "passage", *(f"{side}{number}" for side in "ab" for number in range(16))]
    start = tiny_encoder(words, folder=tmp_path / "base", seed=seed)
    right = [instance.positive for instance in instances]
    random.Random(seed).shuffle(right)
    shuffled = [replace(one, positive=name, negatives=()) for one, name in zip(instances, right, strict=True)]
    scores = {"untrained": reciprocal_rank(start, passages, held_out)}
    for name, labels in (("trained", instances), ("shuffled", shuffled)):
        train(start, tmp_path / name, config=LEARNING, instances=labels, passages=passages, seed=seed)
        scores[name] = reciprocal_rank(BiEncoder.load(tmp_path / name / "encoder"), passages, held_out)
    assert scores["trained"] > scores["untrained"] + 0.3, scores
    assert scores["shuffled"] < scores["untrained"] + 0.1, scores


def killed_after(step, base, folder):
    with pytest.raises(Stopped):
        train(base, folder, progress=stop_at(step))


def steps_of(base, folder, **changes):
    seen: list[int] = []
    train(base, folder, progress=lambda done, total: seen.append(done), **changes)
    return seen


@pytest.mark.parametrize("left", ["encoder", "encoder.old", "encoder.part"])
def test_killed_while_the_encoder_is_put_in_place_it_goes_on_from_its_checkpoint(base, unbroken, tmp_path, left):
    killed_after(13, base, tmp_path)
    shutil.copytree(unbroken / "encoder", tmp_path / left)  # trained.json does not stand there yet
    assert steps_of(base, tmp_path) == list(range(12, 16))
    assert equal(weights(tmp_path), weights(unbroken))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["encoder", "metrics.jsonl", "trained.json"]


@pytest.mark.parametrize("left", ["checkpoints", "checkpoints.done", "nothing"])
def test_killed_after_its_end_a_training_finds_its_encoder_and_takes_no_step(base, unbroken, tmp_path, left):
    ended = tmp_path / "ended"
    shutil.copytree(unbroken, ended)
    if left != "nothing":
        killed_after(8, base, tmp_path / "broken")
        shutil.copytree(tmp_path / "broken" / "checkpoints", ended / left)
    assert steps_of(base, ended) == []
    assert train(base, ended) == replace(train(base, ended), seconds=0.0)
    assert equal(weights(ended), weights(unbroken))
    assert sorted(path.name for path in ended.iterdir()) == ["encoder", "metrics.jsonl", "trained.json"]


def test_half_removed_checkpoints_are_no_obstacle_to_another_training(base, unbroken, tmp_path):
    ended = tmp_path / "ended"
    shutil.copytree(unbroken, ended)
    (ended / "checkpoints.done" / "checkpoint-15").mkdir(parents=True)
    assert steps_of(base, ended, seed=8) == list(range(16))
    assert not equal(weights(ended), weights(unbroken))
    assert not (ended / "checkpoints.done").exists()
