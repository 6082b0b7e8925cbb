from pathlib import Path

import pytest

from agentic_r.artifacts.stage import StageIdentity, open_stage, read_manifest
from agentic_r.errors import StaleError


def identity(seed: int = 0, inputs: dict[str, str] | None = None, **settings: object) -> StageIdentity:
    return StageIdentity("rollout", 1, {"index": "abc"} if inputs is None else inputs, settings, seed)


def test_a_finished_stage_is_done_and_keeps_its_report(tmp_path: Path) -> None:
    stage = open_stage(tmp_path / "s", identity())
    assert not stage.done
    stage.counts["in"] = 3
    stage.skipped["empty"] = 1
    stage.failed["tool failed"] = 2
    stage.metrics["em"] = 0.5
    stage.finish()
    again = open_stage(tmp_path / "s", identity())
    assert again.done
    assert (again.counts, again.skipped, again.failed, again.metrics) == (
        {"in": 3},
        {"empty": 1},
        {"tool failed": 2},
        {"em": 0.5},
    )


def test_an_unfinished_stage_of_the_same_identity_keeps_its_files(tmp_path: Path) -> None:
    open_stage(tmp_path / "s", identity())
    (tmp_path / "s" / "work.log").write_text("half")
    assert not open_stage(tmp_path / "s", identity()).done
    assert (tmp_path / "s" / "work.log").read_text() == "half"


def test_unfinished_work_of_another_identity_is_set_aside_and_kept(tmp_path: Path) -> None:
    for seed in (0, 1):
        stage = open_stage(tmp_path / "s", identity(seed=seed))
        (tmp_path / "s" / "deep").mkdir()
        (tmp_path / "s" / "deep" / "work.log").write_text(f"half of {seed}")
    assert stage.set_aside == tmp_path / "s.unfinished-1"
    assert open_stage(tmp_path / "s", identity(seed=2)).set_aside == tmp_path / "s.unfinished-2"
    assert [file.name for file in (tmp_path / "s").iterdir()] == ["begun.json"]
    for number in (1, 2):
        assert (tmp_path / f"s.unfinished-{number}" / "deep" / "work.log").read_text() == f"half of {number - 1}"


def test_of_a_stage_that_was_only_begun_nothing_is_kept(tmp_path: Path) -> None:
    open_stage(tmp_path / "s", identity(seed=0))
    assert open_stage(tmp_path / "s", identity(seed=1)).set_aside is None
    assert [path.name for path in tmp_path.iterdir()] == ["s"]


def test_a_folder_that_no_stage_began_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "thesis.txt").write_text("years of work")
    with pytest.raises(StaleError, match=r"thesis\.txt"):
        open_stage(tmp_path / "corpus", identity())
    assert (tmp_path / "corpus" / "thesis.txt").read_text() == "years of work"


@pytest.mark.parametrize("begun", [b"", b'{"finger', b'{"other": 1}'])
def test_a_broken_begun_file_means_another_identity(tmp_path: Path, begun: bytes) -> None:
    open_stage(tmp_path / "s", identity())
    (tmp_path / "s" / "begun.json").write_bytes(begun)
    (tmp_path / "s" / "work.log").write_text("half")
    assert open_stage(tmp_path / "s", identity()).set_aside == tmp_path / "s.unfinished-1"
    assert not (tmp_path / "s" / "work.log").exists()


def test_a_stale_stage_names_what_changed(tmp_path: Path) -> None:
    open_stage(tmp_path / "s", identity(turns=5, same=1, gone=None)).finish()
    with pytest.raises(StaleError) as caught:
        open_stage(tmp_path / "s", identity(seed=7, inputs={"index": "xyz"}, turns=4, same=1, new=None))
    text = str(caught.value)
    assert "\n" not in text
    assert "seed was 0, is now 7" in text
    assert "input index was 'abc', is now 'xyz'" in text
    assert "setting turns was 5, is now 4" in text
    assert "setting gone was None, is gone" in text
    assert "(and 1 more)" in text  # setting new
    assert "same" not in text


def test_a_changed_value_in_a_section_is_named_alone(tmp_path: Path) -> None:
    before = {"epochs": 1, "lora": None, "rate": 0.1}
    open_stage(tmp_path / "s", identity(contrastive=before)).finish()
    with pytest.raises(StaleError) as caught:
        open_stage(tmp_path / "s", identity(contrastive=before | {"epochs": 2, "lora": {"rank": 8}}))
    assert "contrastive.epochs was 1, is now 2;" in str(caught.value)
    assert "contrastive.lora was None, is now {'rank': 8};" in str(caught.value)
    assert "rate" not in str(caught.value)


def test_a_setting_that_is_a_tuple_equals_the_list_in_its_manifest(tmp_path: Path) -> None:
    open_stage(tmp_path / "s", identity(measures=("R@5",))).finish()
    assert open_stage(tmp_path / "s", identity(measures=("R@5",))).done


def test_a_setting_and_an_input_of_one_name_are_told_apart() -> None:
    assert identity(inputs={"x": "1"}).fingerprint != identity(inputs={}, x="1").fingerprint


def test_a_broken_manifest_is_an_error_and_not_unfinished_work(tmp_path: Path) -> None:
    open_stage(tmp_path / "s", identity()).finish()
    (tmp_path / "s" / "manifest.json").write_text('{"fingerprint": "x"}')
    with pytest.raises(StaleError, match="not a manifest of this version"):
        read_manifest(tmp_path / "s")


def test_without_a_folder_there_is_no_manifest(tmp_path: Path) -> None:
    assert read_manifest(tmp_path / "nowhere") is None
