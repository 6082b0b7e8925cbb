"""Dev evaluation while training: what is held out, which weights are kept, when training stops, and exact resume."""

import shutil
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file
from test_contrastive_trainer import H13, WORDS, Stopped, silent, stop_at, ten_samples, train, weights
from tiny_encoder import tiny_encoder

from agentic_r.artifacts.jsonl import read_jsonl
from agentic_r.contrastive.dev import DevLog, DevRecord, DevSet, measure_dev, split_dev
from agentic_r.contrastive.ranks import Ranks
from agentic_r.contrastive.trainer import train_retriever
from agentic_r.encoder.bi_encoder import BiEncoder
from agentic_r.errors import ConfigError
from agentic_r.types import QueryText

CONFIG = H13.model_copy(update={"dev_every": 2, "learning_rate": 5e-3})


@pytest.fixture(scope="module")
def base(tmp_path_factory) -> BiEncoder:
    return tiny_encoder([*WORDS, "query", "passage"], folder=tmp_path_factory.mktemp("base"))


def dev_set() -> DevSet:
    """Every query finds its own positive, among all passages."""
    instances, passages = ten_samples()
    return DevSet(
        queries={item.id: QueryText(item.query, item.question) for item in instances},
        relevant={item.id: (item.positive,) for item in instances},
        pool=tuple(passages.values()),
    )


def train_on_dev(base, folder, *, config=CONFIG, progress=silent, dev=None):
    instances, passages = ten_samples()
    return train_retriever(
        base,
        instances,
        passages,
        config,
        folder=folder,
        seed=7,
        threads=1,
        progress=progress,
        dev=dev_set() if dev is None else dev,
    )


def test_questions_are_held_out_with_all_their_instances():
    instances, passages = ten_samples()
    instances = [replace(item, question_id=f"q{number // 2}") for number, item in enumerate(instances)]
    kept, dev = split_dev(instances, passages, share=0.5, seed=1)
    dev_questions = {item.question_id for item in instances} - {item.question_id for item in kept}
    held_out = [item for item in instances if item.question_id in dev_questions]
    assert 0 < len(kept) < 10
    assert list(dev.queries) == [item.id for item in held_out]
    assert dev.relevant == {item.id: (item.positive,) for item in held_out}
    assert len(dev.pool) == len({name for item in instances for name in (item.positive, *item.negatives)})


def test_instances_of_one_query_are_one_dev_query_with_all_its_positives():
    instances, passages = ten_samples()
    twice = [replace(instances[0], id="a", other_positives=("p5",)), replace(instances[0], id="b", positive="p6")]
    other = replace(instances[1], question_id="other")
    for seed in range(50):
        try:
            kept, dev = split_dev([*twice, other], passages, share=0.5, seed=seed)
        except ConfigError:
            continue
        if kept == [other]:
            assert dev.relevant == {"a": ("p0", "p5", "p6")}
            return
    pytest.fail("no seed held out the first question")


def test_a_share_that_leaves_nothing_to_measure_on_is_refused():
    instances, passages = ten_samples()
    with pytest.raises(ConfigError, match=r"contrastive\.dev_share 0\.5: (0|10) of 10 instances"):
        split_dev(instances, passages, share=0.5, seed=0)  # all are of one question


def test_measures_are_means_over_queries_of_rankings_of_the_whole_pool(base):
    dev = dev_set()
    found = measure_dev(base, dev, ["RR", "R@5"], ranks=Ranks())
    vectors = base.encode_passages(dev.pool)
    reciprocal, within = [], []
    for name, text in dev.queries.items():
        values = base.encode_queries([text])[0] @ vectors.T
        own = [item.id for item in dev.pool].index(dev.relevant[name][0])
        rank = 1 + int((values > values[own]).sum())
        reciprocal.append(1 / rank)
        within.append(rank <= 5)
    assert found["RR"] == pytest.approx(sum(reciprocal) / 10)
    assert found["R@5"] == pytest.approx(sum(within) / 10)


def test_the_weights_written_are_those_of_the_best_evaluation(base, tmp_path):
    summary = train_on_dev(base, tmp_path)
    lines = list(read_jsonl(tmp_path / "dev.jsonl"))
    assert [line["step"] for line in lines] == [0, 2, 4, 6, 8, 10, 12, 14, 15]
    values = [line["values"]["nDCG@10"] for line in lines]
    assert summary.dev is not None
    assert summary.dev.values["nDCG@10"] == max(values) > values[0]
    assert summary.dev.step == lines[values.index(max(values))]["step"]
    trained = BiEncoder.load(tmp_path / "encoder")
    assert measure_dev(trained, dev_set(), ["nDCG@10"], ranks=Ranks())["nDCG@10"] == pytest.approx(max(values))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dev.jsonl", "encoder", "metrics.jsonl", "trained.json"]


def test_a_training_that_makes_it_worse_keeps_the_base(base, tmp_path):
    """Every query's dev passage is the one that training pushes away from it."""
    instances, _ = ten_samples()
    dev = replace(dev_set(), relevant={item.id: (item.negatives[0],) for item in instances})
    config = CONFIG.model_copy(update={"patience": 3, "dev_measures": ("RR", "nDCG@10")})
    summary = train_on_dev(base, tmp_path, config=config, dev=dev)
    assert summary.dev is not None
    kept = summary.dev.step
    steps = [line["step"] for line in read_jsonl(tmp_path / "dev.jsonl")]
    assert steps[-1] == kept + 6 if steps[-1] < 15 else steps[-1] == 15
    assert len(list(read_jsonl(tmp_path / "metrics.jsonl"))) == steps[-1]
    assert kept == 0
    assert BiEncoder.load(tmp_path / "encoder").fingerprint == base.fingerprint
    assert f"kept the weights of step {kept}" in summary.reason


def test_training_ends_after_so_many_evaluations_without_a_better_one(base, tmp_path):
    still = CONFIG.model_copy(update={"learning_rate": 1e-12, "patience": 2})
    summary = train_on_dev(base, tmp_path, config=still)
    assert [line["step"] for line in read_jsonl(tmp_path / "dev.jsonl")] == [0, 2, 4]
    assert len(list(read_jsonl(tmp_path / "metrics.jsonl"))) == 4
    assert summary.dev is not None
    assert summary.dev.step == 0
    assert "in 4 of 15 steps" in summary.reason


@pytest.mark.parametrize("stop", [5, 8])
def test_h13_a_stopped_training_keeps_the_same_weights_and_log(base, tmp_path, stop):
    unbroken = tmp_path / "unbroken"
    train_on_dev(base, unbroken)
    broken = tmp_path / "broken"
    with pytest.raises(Stopped):
        train_on_dev(base, broken, progress=stop_at(stop))
    again = tmp_path / "again"
    shutil.copytree(broken, again)
    for folder in (broken, again):
        train_on_dev(base, folder)
        for name in ("dev.jsonl", "metrics.jsonl"):
            assert (folder / name).read_bytes() == (unbroken / name).read_bytes()
        assert all(torch.equal(value, weights(unbroken)[name]) for name, value in weights(folder).items())


def test_an_earlier_best_stays_until_a_checkpoint_holds_the_later_one(tmp_path):
    model = torch.nn.Linear(1, 1)
    log = DevLog(tmp_path / "dev.jsonl", weights_folder=tmp_path, measure="RR", keep_steps=0, is_begun=False)
    for step, value in ((0, 0.1), (2, 0.3), (4, 0.2)):
        log.append(DevRecord(step, {"RR": value}), model)
    assert sorted(path.name for path in tmp_path.glob("*.pt")) == ["best-0.pt", "best-2.pt"]
    reopened = DevLog(tmp_path / "dev.jsonl", weights_folder=tmp_path, measure="RR", keep_steps=1, is_begun=True)
    assert reopened.best.step == 0
    log.forget_worse()
    assert [path.name for path in tmp_path.glob("*.pt")] == ["best-2.pt"]


def test_of_equal_evaluations_the_earliest_is_the_best(tmp_path):
    log = DevLog(tmp_path / "dev.jsonl", weights_folder=tmp_path, measure="RR", keep_steps=0, is_begun=False)
    for step in (0, 2, 4):
        log.append(DevRecord(step, {"RR": 0.5}), torch.nn.Linear(1, 1))
    assert (log.best.step, log.num_since_best) == (0, 2)


def test_the_share_held_out_is_a_setting(base, tmp_path):
    instances, passages = ten_samples()
    instances = [replace(item, question_id=item.id) for item in instances]
    config = CONFIG.model_copy(update={"dev_share": 0.3, "epochs": 1})
    train(base, tmp_path, config=config, instances=instances, passages=passages)
    kept, _ = split_dev(instances, passages, share=0.3, seed=7)
    assert sum(line["num_rows"] for line in read_jsonl(tmp_path / "metrics.jsonl")) == len(kept) < 10
    assert load_file(tmp_path / "encoder" / "model.safetensors")
