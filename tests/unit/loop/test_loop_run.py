"""Running a plan up to its cheap stages: done once, refused where stale, taken over where it fits."""

import json
import os

import pytest

from agentic_r.artifacts.progress import Silent
from agentic_r.artifacts.stage import read_manifest
from agentic_r.config import RunConfig
from agentic_r.errors import ConfigError, DataError, StaleError
from agentic_r.loop.layout import plan_stages
from agentic_r.loop.preview import preview
from agentic_r.loop.run import has_work, run


class Notes(Silent):
    """Keeps what each stage says at its end."""

    def __init__(self):
        self.said = {}
        self._stage = ""

    def begin(self, stage):
        self._stage = stage

    def end(self, note):
        self.said[self._stage] = note


@pytest.fixture
def config(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.txt").write_text("Tower a is 1 metre high.")
    (tmp_path / "docs" / "b.jsonl").write_text('{"id": "b", "text": "Tower b."}\n{"id": "c"}\n')
    rows = [{"id": f"q{n}", "question": f"q{n}?", "answers": ["1"], "split": s} for n, s in enumerate(("train", "dev"))]
    (tmp_path / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def make(name="n", **changes):
        return RunConfig.model_validate(
            {
                "name": name,
                "runs": tmp_path / "runs",
                "threads": 1,
                "data": {
                    "kind": "files",
                    "documents": tmp_path / "docs",
                    "questions": tmp_path / "q.jsonl",
                    "broken_lines": "skip",
                },
                "encoder": {"kind": "scratch"},
                "agent": {"model": {"kind": "tiny", "path": tmp_path / "lm"}},
                **changes,
            }
        )

    return make


def go(config, until="bm25"):
    notes = Notes()
    run(config, progress=notes, until=until)
    return notes.said


def test_a_stage_tells_what_it_skipped_and_is_done_once(config):
    said = go(config())
    assert said["corpus"].endswith("read 3, documents 2, passages 2, words 8, skipped 1")
    manifest = (config().folder / "corpus" / "manifest.json").read_bytes()
    assert go(config()) == {"corpus": "done before", "bm25": "done before"}
    assert (config().folder / "corpus" / "manifest.json").read_bytes() == manifest


def test_a_stale_stage_is_refused_with_its_reason_and_those_that_follow(config):
    go(config())
    before = {path: path.read_bytes() for path in config().folder.rglob("*") if path.is_file()}
    with pytest.raises(StaleError, match=r"corpus is stale: seed was 0, is now 1; .*; stale too: bm25$"):
        go(config(seed=1))
    assert {path: path.read_bytes() for path in before} == before  # nothing is lost


def test_a_stage_beyond_until_does_not_refuse(config):
    go(config())
    changed = config(index={"bm25": {"k1": 1.2}})
    assert go(changed, until="corpus") == {"corpus": "done before"}
    with pytest.raises(StaleError, match=r"bm25 is stale: setting bm25\.k1 was 1\.5, is now 1\.2; [^;]*$"):
        go(changed)


def test_what_fits_is_taken_over_from_another_run_and_the_rest_is_made(config):
    go(config("old"))
    new = config("new", reuse=[config("old").folder], index={"bm25": {"k1": 1.2}})
    assert [item.state for item in preview(new, until="bm25").stages] == ["reusable", "to do"]
    said = go(new)
    assert said["corpus"] == f"taken over from {config('old').folder}"
    assert said["bm25"].endswith("passages 2")
    texts = [config(name).folder / "corpus" / "documents.jsonl" for name in ("old", "new")]
    assert texts[0].read_bytes() == texts[1].read_bytes()
    assert [item.state for item in preview(new, until="bm25").stages] == ["done", "done"]


def test_taking_over_a_stage_never_removes_what_no_stage_made(config):
    go(config("old"))
    new = config("new", reuse=[config("old").folder])
    (new.folder / "corpus").mkdir(parents=True)
    (new.folder / "corpus" / "thesis.txt").write_text("years of work")
    with pytest.raises(StaleError, match=r"thesis\.txt"):
        go(new)
    assert (new.folder / "corpus" / "thesis.txt").read_text() == "years of work"


def test_a_run_that_is_not_there_cannot_be_reused(config, tmp_path):
    with pytest.raises(ConfigError, match=r"reuse: .*: no such folder"):
        go(config(reuse=[tmp_path / "gone"]))
    assert not config().folder.exists()


def test_a_stage_that_stops_leaves_no_manifest_and_goes_on_once_the_fault_is_mended(config, tmp_path):
    good = (tmp_path / "q.jsonl").read_text()
    (tmp_path / "q.jsonl").write_text("")
    with pytest.raises(DataError, match=r"q\.jsonl: no usable question \(nothing was skipped\); give questions"):
        go(config())
    assert read_manifest(config().folder / "corpus") is None
    (tmp_path / "q.jsonl").write_text(good)
    assert "documents 2" in go(config())["corpus"]


def test_the_folder_is_free_again_after_a_stop(config):
    with pytest.raises(DataError):
        go(config(data={**config().data.model_dump(), "questions": "gone.jsonl"}))
    assert "documents 2" in go(config())["corpus"]


def test_the_settings_of_a_run_stand_in_its_folder(config):
    go(config(), until="corpus")
    assert "broken_lines: skip" in (config().folder / "config.yaml").read_text()


def test_a_dry_run_says_what_is_done_stale_and_to_do_and_changes_nothing(config):
    go(config(), until="corpus")
    listed = sorted(os.walk(config().folder))
    assert [item.state for item in preview(config(), until="bm25").stages] == ["done", "to do"]
    assert [item.state for item in preview(config(seed=1), until="bm25").stages] == ["stale", "to do"]
    assert sorted(os.walk(config().folder)) == listed
    text = preview(config(), until="bm25").text()
    assert text.endswith("stages:\n  done      corpus\n  to do     bm25")


def test_a_stage_has_work_until_it_is_finished_or_can_be_taken_over(config):
    def waiting(settings):
        return [plan.name for plan in plan_stages(settings)[:2] if has_work(settings, plan)]

    assert waiting(config("old")) == ["corpus", "bm25"]
    go(config("old"), until="corpus")
    assert waiting(config("old")) == ["bm25"]
    assert waiting(config("new", reuse=[config("old").folder])) == ["bm25"]
    assert waiting(config("other", reuse=[config("old").folder], seed=1)) == ["corpus", "bm25"]
