from pathlib import Path

from agentic_r.artifacts.checkpoints import mark_whole, newest_checkpoint


def checkpoint(folder: Path, step: int, *, whole: bool) -> Path:
    path = folder / f"checkpoint-{step}"
    path.mkdir(parents=True)
    (path / "weights").write_text("x")
    if whole:
        mark_whole(folder, step)
    return path


def test_without_checkpoints_there_is_none(tmp_path: Path) -> None:
    assert newest_checkpoint(tmp_path / "nowhere") is None


def test_the_newest_whole_one_counts_by_number_and_not_by_name(tmp_path: Path) -> None:
    checkpoint(tmp_path, 9, whole=True)
    newest = checkpoint(tmp_path, 10, whole=True)
    found = newest_checkpoint(tmp_path)
    assert found is not None
    assert (found.path, found.step) == (newest, 10)


def test_a_half_one_is_removed_and_the_whole_one_before_it_counts(tmp_path: Path) -> None:
    checkpoint(tmp_path, 10, whole=True)
    half = checkpoint(tmp_path, 20, whole=False)
    found = newest_checkpoint(tmp_path)
    assert found is not None
    assert found.step == 10
    assert not half.exists()
