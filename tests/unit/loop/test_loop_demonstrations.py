"""The corpus and warm-start stages with demonstrations that bring their own corpus."""

import json

import pytest

from agentic_r.artifacts.records import read_records
from agentic_r.artifacts.stage import StageFolder, StageIdentity
from agentic_r.config import RunConfig
from agentic_r.corpus.folder import write_folder
from agentic_r.errors import DataError
from agentic_r.llm.tiny import new_tiny_model, tiny_tokenizer
from agentic_r.loop.layout import StagePlan
from agentic_r.loop.learning import make_corpus, make_warm_agent
from agentic_r.loop.parts import Parts
from agentic_r.types import Demonstration, DemonstrationStep, Document, Evidence, Question

FAR = [Document(f"far-{number}", "bo", f"the teacher of bo is number {number} .") for number in range(4)]
ASKED = Question("s", "teacher of bo ?", ("3",), "train", evidence=(Evidence("far-3"),))
GOOD = DemonstrationStep("teacher of bo", (Evidence("far-3", "number 3"),), "teacher of bo : 3")
WORDS = (
    "the",
    "teacher",
    "of",
    "bo",
    "is",
    "number",
    "question",
    ":",
    ".",
    "?",
    "0",
    "1",
    "2",
    "3",
    "title",
    "doc",
    "(",
    ")",
)


def silent(done, total):
    pass


@pytest.fixture
def run(tmp_path):
    """A run whose corpus knows nothing of the demonstrations' documents."""
    (tmp_path / "d.jsonl").write_text(
        "".join(json.dumps({"id": f"d{n}", "text": f"text {n}"}) + "\n" for n in range(5))
    )
    rows = [
        {"id": f"q{n}", "question": f"q{n}?", "answers": ["x"], "split": split}
        for n, split in enumerate(["train", "dev"])
    ]
    (tmp_path / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    tokenizer = tiny_tokenizer(WORDS)
    model = new_tiny_model(len(tokenizer), seed=0, width=16, layers=2, heads=4)
    model.save_pretrained(tmp_path / "lm")
    tokenizer.save_pretrained(tmp_path / "lm")

    def make(demonstrations, **agent):
        write_folder(tmp_path / "set", documents=FAR, questions=[ASKED], demonstrations=demonstrations)
        config = RunConfig.model_validate(
            {
                "name": "n",
                "runs": tmp_path / "runs",
                "threads": 1,
                "data": {
                    "kind": "files",
                    "documents": tmp_path / "d.jsonl",
                    "questions": tmp_path / "q.jsonl",
                    "demonstrations": tmp_path / "set",
                },
                "encoder": {"kind": "scratch"},
                "agent": {
                    "model": {"kind": "tiny", "path": tmp_path / "lm"},
                    "prompt": "tiny",
                    "max_turns": 3,
                    **agent,
                },
                "warm_start": {"steps": 1, "batch_size": 1},
            }
        )
        return Parts(config)

    return make


def plan(made):
    return StagePlan(name=made.identity.name, kind=made.identity.name, iteration=0, identity=made.identity)


def stage(parts, name):
    identity = StageIdentity(name=name, schema=1, inputs={}, settings={}, seed=0)
    (parts.root / name).mkdir(parents=True)
    return StageFolder(path=parts.root / name, identity=identity, done=False)


def test_a_sets_documents_stay_out_of_the_runs_corpus(run):
    parts = run([Demonstration("m", "s", (GOOD,), "3")])
    corpus = stage(parts, "corpus")
    make_corpus(parts, plan(corpus), corpus, silent)
    assert [item.id for item in parts.corpus.documents.values()] == [f"d{n}" for n in range(5)]
    assert sorted(parts.questions) == ["q0", "q1"]
    assert corpus.counts["documents"] == 5
    assert corpus.counts["demonstration_documents"] == 4
    [asked] = read_records(corpus.path / "demonstration_corpus" / "questions.jsonl", Question)
    assert asked.gold_passages == ("far-3#0",)


def test_the_warm_start_shows_passages_of_the_sets_own_corpus(run, monkeypatch):
    parts = run([Demonstration("m", "s", (GOOD,), "3"), Demonstration("long", "s", (GOOD,) * 4, "3")])
    make_corpus(parts, plan(made := stage(parts, "corpus")), made, silent)
    trained = []
    monkeypatch.setattr(
        "agentic_r.loop.learning.warm_start",
        lambda model, tokenizer, trajectories, *rest, **more: trained.extend(trajectories) or 0,
    )
    warm = stage(parts, "warm/agent")
    make_warm_agent(parts, plan(warm), warm, silent)
    turn = trained[0].turns[0]
    assert "far-3#0" in [item.passage_id for item in turn.passages]
    assert {item.passage_id for item in turn.passages} <= {f"far-{number}#0" for number in range(4)}
    assert trained[0].answer == "3"
    assert warm.skipped == {
        "demonstrations cut before their answer by agent.max_turns or agent.max_context_tokens": 1  # four searches
    }


def test_a_demonstration_of_what_its_corpus_lacks_stops_the_corpus_stage(run):
    wrong = DemonstrationStep("x", (Evidence("far-9"),), "x")
    parts = run([Demonstration("m", "s", (wrong,), "3")])
    with pytest.raises(DataError, match="demonstration 'm': shows document 'far-9'"):
        make_corpus(parts, plan(made := stage(parts, "corpus")), made, silent)
