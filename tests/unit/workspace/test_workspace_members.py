import errno
import os
import stat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentic_r.types import Document
from agentic_r.workspace import members
from agentic_r.workspace.members import Admission, LaidOut, Workspace
from agentic_r.workspace.store import create_store

DOCUMENTS = [Document(f"d{number}", f"Title {number}", f"text {number}\n") for number in range(5)]


@pytest.fixture
def store(tmp_path):
    return create_store(tmp_path / "store", DOCUMENTS)


@pytest.fixture(scope="module")
def shared_store(tmp_path_factory):
    return create_store(tmp_path_factory.mktemp("shared"), DOCUMENTS)


def test_what_is_new_and_what_was_there_is_counted_while_admitting(store):
    workspace = Workspace(store)
    assert workspace.admit(["d1", "d0"]) == Admission(2, 0, 0)
    assert workspace.admit(["d0", "d3", "d3"]) == Admission(1, 2, 0)
    assert list(workspace) == ["d1", "d0", "d3"]
    assert workspace.names() == [store.name("d0"), store.name("d1"), store.name("d3")]


def test_a_full_workspace_refuses_and_counts_what_it_refuses(store):
    workspace = Workspace(store, max_documents=2)
    assert workspace.admit(["d4", "d3", "d2", "d4"]) == Admission(2, 1, 1)
    assert list(workspace) == ["d4", "d3"]


def test_a_document_that_the_store_lacks_is_a_callers_bug(store):
    with pytest.raises(KeyError):
        Workspace(store).admit(["stranger"])


@given(st.lists(st.lists(st.sampled_from([item.id for item in DOCUMENTS]), max_size=6), max_size=5), st.integers(1, 6))
def test_a_workspace_only_grows_up_to_its_cap(shared_store, imports, cap):
    workspace = Workspace(shared_store, max_documents=cap)
    for ids in imports:
        before = list(workspace)
        found = workspace.admit(ids)
        assert list(workspace)[: len(before)] == before
        assert len(workspace) == len(before) + found.num_new <= cap
        assert found.num_new + found.num_already + found.num_refused == len(ids)


def test_only_members_are_found(store):
    workspace = Workspace(store)
    workspace.admit(["d1"])
    assert workspace.find(store.name("d1")) == "d1"
    assert workspace.find(store.name("d2")) is None
    assert workspace.find("../map.jsonl") is None


def test_files_are_laid_out_when_asked_and_only_what_is_new(store, tmp_path):
    workspace = Workspace(store)
    workspace.admit(["d1", "d0"])
    folder = tmp_path / "shell"
    assert not folder.exists()
    workspace.lay_out(folder)
    assert workspace.laid_out == LaidOut(link=2)
    workspace.admit(["d2"])
    workspace.lay_out(folder)
    assert workspace.laid_out == LaidOut(link=3)
    assert sorted(path.name for path in folder.iterdir()) == workspace.names()
    assert (folder / store.name("d1")).samefile(store.documents_folder / store.name("d1"))


@pytest.mark.parametrize("cause", [errno.EXDEV, errno.EMLINK, errno.EPERM])
def test_where_links_fail_files_are_copied_whole_and_read_only(store, tmp_path, monkeypatch, cause):
    def refuse(*args, **kwargs):
        raise OSError(cause, os.strerror(cause))

    monkeypatch.setattr(members.os, "link", refuse)
    workspace = Workspace(store)
    workspace.admit(["d1", "d2"])
    workspace.lay_out(tmp_path / "shell")
    made = workspace.laid_out
    assert (made.link, made.reflink + made.copy) == (0, 2)  # which of the two depends on the file system
    path = tmp_path / "shell" / store.name("d1")
    assert path.read_text() == "text 1\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o444
    assert not path.samefile(store.documents_folder / store.name("d1"))
    assert {entry.name for entry in (tmp_path / "shell").iterdir()} == set(workspace.names())


def test_a_half_made_copy_of_a_killed_session_is_replaced_not_written_into(store, tmp_path, monkeypatch):
    folder, other = tmp_path / "shell", tmp_path / "other name"
    folder.mkdir()
    part = folder / f"{store.name('d1')}.part"
    part.write_text("te")
    part.chmod(0o444)
    other.hardlink_to(part)  # shows, to root too, which file was written

    def refuse(*args, **kwargs):
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    monkeypatch.setattr(members.os, "link", refuse)
    workspace = Workspace(store)
    workspace.admit(["d1"])
    workspace.lay_out(folder)
    assert (folder / store.name("d1")).read_text() == "text 1\n"
    assert other.read_text() == "te"
    assert not part.exists()


def test_another_failure_is_not_hidden(store, tmp_path):
    workspace = Workspace(store)
    workspace.admit(["d1"])
    (store.documents_folder / store.name("d1")).unlink()
    with pytest.raises(FileNotFoundError):
        workspace.lay_out(tmp_path / "shell")


def test_what_a_killed_session_left_is_taken_over_or_replaced(store, tmp_path):
    folder = tmp_path / "shell"
    first = Workspace(store)
    first.admit(["d1"])
    first.lay_out(folder)
    half = folder / store.name("d2")
    half.write_text("te")
    half.chmod(0o444)
    again = Workspace(store)
    again.admit(["d1", "d2"])
    again.lay_out(folder)
    assert again.laid_out == LaidOut(link=2)
    assert half.read_text() == "text 2\n"
