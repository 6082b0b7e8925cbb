"""``agentic-r train retriever``: a user's pairs in, an encoder out."""

import json
import os
import random
import subprocess
import sys

import pytest
from test_contrastive_trainer import WORDS
from tiny_encoder import tiny_encoder
from two_processes import free_port
from typer.testing import CliRunner

from agentic_r.artifacts.jsonl import read_jsonl
from agentic_r.artifacts.lock import locked
from agentic_r.artifacts.progress import Silent
from agentic_r.cli import app
from agentic_r.config import load_retriever_config
from agentic_r.contrastive.own_instances import read_instances, read_pool
from agentic_r.contrastive.standalone import dev_set, train_alone
from agentic_r.encoder.bi_encoder import BiEncoder
from agentic_r.errors import ConfigError, DataError, StaleError
from agentic_r.evaluation.training_report import write_training_report

CONFIG = """
name: mine
runs: {runs}
threads: 1
instances: {folder}/pairs.jsonl
corpus: {folder}/corpus.jsonl
dev_instances: {folder}/dev.jsonl
encoder: {{kind: pretrained, path: {folder}/encoder, query_prefix: "query: ", passage_prefix: "passage: ",
           max_query_tokens: 24, max_passage_tokens: 32}}
mining: {{negatives: 2, first_rank: 2, last_rank: 10}}
contrastive: {{batch_size: 4, epochs: 1, min_instances: 4, dev_every: 2, learning_rate: 1.0e-3}}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("own")
    tiny_encoder([*WORDS, "query", "passage"], folder=folder / "parts").save(folder / "encoder")
    draw = random.Random(0)
    passages = [{"id": f"p{number}", "text": " ".join(draw.choices(WORDS, k=8))} for number in range(20)]
    pairs = [{"query": f"w{number} w3", "positive": f"p{number}", "source": "me"} for number in range(10)]
    for name, rows in (("corpus", passages), ("pairs", pairs[:8]), ("dev", pairs[8:])):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


@pytest.fixture
def config(folder, tmp_path):
    file = tmp_path / "own.yaml"
    file.write_text(CONFIG.format(folder=folder, runs=tmp_path / "runs"))
    return file


@pytest.mark.parametrize("retriever", ["encoder", "bm25"])
def test_pairs_are_given_negatives_and_trained_on(config, retriever):
    settings = load_retriever_config(config, (f"mining.retriever={retriever}",))
    summary = train_alone(settings, progress=Silent())
    assert summary is not None
    assert summary.num_instances == 8
    assert summary.dev is not None
    manifest = json.loads((settings.folder / "manifest.json").read_text())
    assert manifest["counts"]["rows"] == 8
    assert manifest["skipped"] == {"field 'source' is of no use": 8}
    mined = [json.loads(line) for line in (settings.folder / "prepared" / "instances.jsonl").open()]
    assert all(item["positive"] not in item["negatives"] for item in mined)
    assert any(item["negatives"] for item in mined)
    assert BiEncoder.load(settings.folder / "retriever" / "encoder").settings.query_prefix == "query: "


def test_a_finished_folder_is_left_alone_and_other_settings_are_refused_there(config):
    settings = load_retriever_config(config)
    train_alone(settings, progress=Silent())
    before = (settings.folder / "retriever" / "encoder" / "model.safetensors").read_bytes()
    assert train_alone(settings, progress=Silent()) is None
    assert (settings.folder / "retriever" / "encoder" / "model.safetensors").read_bytes() == before
    with pytest.raises(StaleError, match=r"contrastive"):
        train_alone(load_retriever_config(config, ("contrastive.epochs=2",)), progress=Silent())


def test_too_few_instances_are_refused(config):
    with pytest.raises(DataError, match=r"8 instances are fewer than contrastive\.min_instances 9"):
        train_alone(load_retriever_config(config, ("contrastive.min_instances=9",)), progress=Silent())


def test_a_dev_query_that_is_trained_on_is_refused(config, folder, tmp_path):
    rows = [{"query": "w1  w3", "positive": "p9", "history": ["w2"]}, {"query": "w9 w3", "positive": "p9"}]
    (tmp_path / "dev.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(DataError, match=r"1 of 2 queries are also in .*pairs\.jsonl \(the first: 'w1  w3'\)"):
        train_alone(load_retriever_config(config, (f"dev_instances={tmp_path}/dev.jsonl",)), progress=Silent())
    reads_history = (f"dev_instances={tmp_path}/dev.jsonl", "contrastive.query_format=history", "name=other")
    assert train_alone(load_retriever_config(config, reads_history), progress=Silent()) is not None


def test_the_command_prints_one_object(config):
    done = CliRunner().invoke(app, ["train", "retriever", str(config), "--json"])
    assert done.exit_code == 0, done.output
    summary = json.loads(done.stdout)
    assert summary["num_instances"] == 8
    assert summary["dev"]["step"] in (0, 2)


def test_the_page_has_curves_dev_measures_and_settings_and_is_written_again_on_request(config):
    done = CliRunner().invoke(app, ["train", "retriever", str(config), "--set", "name=<page>"])
    assert done.exit_code == 0, done.output
    folder = load_retriever_config(config, ("name=<page>",)).folder
    page = (folder / "report.html").read_text(encoding="utf-8")
    dev = [line["values"]["nDCG@10"] for line in read_jsonl(folder / "retriever" / "dev.jsonl")]
    assert ("Training raises nDCG@10" in page) is (max(dev) > dev[0])
    assert f'<td class="n">{dev[0]:.2f}</td><td class="n">{max(dev):.2f}</td>' in page
    assert page.count("<svg") == 4  # loss, similarity, gradient norm, the dev measure
    assert "&lt;page&gt;" in page
    assert "<page>" not in page
    assert "learning_rate: 0.001" in page
    assert "http://" not in page.replace("http://www.w3.org/2000/svg", "")
    (folder / "report.html").unlink()
    again = CliRunner().invoke(app, ["report", str(folder)])
    assert again.exit_code == 0, again.output
    assert (folder / "report.html").read_text(encoding="utf-8") == page


def test_a_page_without_dev_evaluation_says_so_and_one_of_no_training_is_refused(config):
    arguments = ["train", "retriever", str(config), "--set", "dev_instances=null"]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    folder = load_retriever_config(config, ("dev_instances=null",)).folder
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "A retriever was trained on 8 instances, without dev evaluation." in page
    assert "not measured: no dev queries" in page
    (folder / "manifest.json").unlink()
    with pytest.raises(ConfigError, match="no finished training"):
        write_training_report(folder)


def test_a_file_that_is_not_there_is_named(config):
    with pytest.raises(DataError, match=r"nowhere\.jsonl: no such file"):
        train_alone(load_retriever_config(config, ("corpus=nowhere.jsonl",)), progress=Silent())


def test_dev_queries_of_different_history_are_two(folder, tmp_path, config):
    rows = [{"query": "w1 w3", "positive": f"p{row}", "history": [f"w{row}"][:row]} for row in (0, 1)]
    (tmp_path / "dev.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    pool = read_pool(folder / "corpus.jsonl")
    found = read_instances(tmp_path / "dev.jsonl", pool=pool)
    dev = dev_set(found.instances, found.passages)
    assert [item.history for item in dev.queries.values()] == [(), ("w1",)]
    assert list(dev.relevant.values()) == [("p0",), ("p1",)]


def test_mining_never_draws_what_another_row_of_the_query_calls_its_positive(config, tmp_path):
    rows = [{"query": "w1 w3", "positive": f"p{row}"} for row in range(8)]
    (tmp_path / "same.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    settings = load_retriever_config(config, (f"instances={tmp_path}/same.jsonl", "mining.last_rank=20"))
    train_alone(settings, progress=Silent())
    mined = [json.loads(line) for line in (settings.folder / "prepared" / "instances.jsonl").open()]
    drawn = {name for item in mined for name in item["negatives"]}
    assert drawn
    assert not drawn & {f"p{row}" for row in range(8)}
    assert json.loads((settings.folder / "manifest.json").read_text())["counts"]["rows_of_earlier_queries"] == 7


class KilledInTraining(Silent):
    def begin(self, stage):
        if stage == "train retriever":
            raise KeyboardInterrupt


def test_what_was_counted_before_a_kill_is_in_the_manifest(config, tmp_path):
    one, other = (load_retriever_config(config, (f"runs={tmp_path / name}",)) for name in ("one", "other"))
    train_alone(one, progress=Silent())
    with pytest.raises(KeyboardInterrupt):
        train_alone(other, progress=KilledInTraining())
    train_alone(other, progress=Silent())
    unbroken, resumed = (json.loads((item.folder / "manifest.json").read_text()) for item in (one, other))
    assert "negatives_same_text" in resumed["counts"]
    assert (resumed["counts"], resumed["skipped"]) == (unbroken["counts"], unbroken["skipped"])


def test_a_second_process_is_refused_and_leaves_the_first_ones_work_alone(config):
    settings = load_retriever_config(config)
    with locked(settings.folder), pytest.raises(ConfigError, match="another process is working in this folder"):
        train_alone(settings, progress=Silent())
    assert not settings.folder.exists()
    assert train_alone(settings, progress=Silent()).trained


CHILD = """
import os, sys
from pathlib import Path
sys.path[:0] = sys.argv[2:]
from agentic_r.artifacts.progress import Silent
from agentic_r.config import load_retriever_config
from agentic_r.contrastive.standalone import train_alone
from torch import distributed
found = train_alone(load_retriever_config(Path(sys.argv[1])), progress=Silent())
distributed.barrier()
os._exit(3 if found is None else 0)  # gloo's threads sometimes abort an ordinary exit
"""


@pytest.mark.slow
@pytest.mark.enable_socket
def test_two_processes_leave_a_finished_training_alone(config):
    train_alone(load_retriever_config(config), progress=Silent())
    together = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port()}
    quiet = {"ACCELERATE_USE_CPU": "true", "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    children = [
        subprocess.Popen(
            [sys.executable, "-c", CHILD, str(config), *(path for path in sys.path if path)],
            env={**os.environ, **together, **quiet, "RANK": str(rank), "LOCAL_RANK": str(rank)},
        )
        for rank in range(2)
    ]
    assert [child.wait() for child in children] == [3, 3]
