import pytest

from agentic_r.types import Document
from agentic_r.workspace.read import ReadRequest, read_lines
from agentic_r.workspace.shown import ShownLines, ShownSpan
from agentic_r.workspace.store import create_store


@pytest.fixture
def store(tmp_path):
    body = "one\r\ntwo\nthree\x1b[31m\nfour\n"
    return create_store(tmp_path, [Document("d", "Title", body), Document("long", "Long", "x" * 500 + "\nend\n")])


def read(store, document_id, first_line=1, num_lines=2000, max_characters=1000):
    return read_lines(store, ReadRequest(store.name(document_id), first_line, num_lines), max_characters=max_characters)


def test_lines_are_numbered_from_one_and_the_header_says_of_how_many(store):
    result = read(store, "d", 2, 2)
    name = store.name("d")
    assert result.shown.text == f"{name}: lines 2-3 of 4\n     2  two\n     3  three\ufffd[31m"
    # "\\n     2  two" are 12 characters after the header, "\\n     3  three?[31m" 19 more
    header = len(f"{name}: lines 2-3 of 4")
    assert result.shown.spans == (ShownSpan("d", 2, 0, 3, header + 12), ShownSpan("d", 3, 0, 10, header + 31))
    assert (result.state, result.document_id) == ("ok", "d")


def test_lines_beyond_the_end_are_empty_not_an_error(store):
    result = read(store, "d", 5)
    assert result.state == "empty"
    assert result.shown.text.endswith(": no line of 4")


def test_a_line_that_does_not_fit_is_cut_and_says_how_much_is_left(store):
    name = store.name("long")
    result = read(store, "long", max_characters=200)
    (span,) = result.shown.spans
    assert len(result.shown.text) <= 200
    assert result.shown.text.startswith(f"{name}: lines 1-1 of 2\n     1  xxx")
    assert result.shown.text.endswith(f"x… ({500 - span.end} more characters)")


def test_no_room_for_a_line_is_told_apart_from_no_line(store):
    result = read(store, "long", max_characters=30)
    assert (result.state, result.shown.spans) == ("skipped", ())
    assert len(result.shown.text) <= 30
    assert "no room" in result.cause


@pytest.mark.parametrize("path", ["../map.jsonl", "/etc/hostname", "", "nowhere.txt"])
def test_paths_outside_the_workspace_are_refused(store, path):
    result = read_lines(store, ReadRequest(path), max_characters=100)
    assert (result.state, result.shown.text) == ("refused", "")
    assert "is not a document of this workspace." in result.cause


def test_line_numbers_below_one_are_refused(store):
    assert read(store, "d", 0).state == "refused"
    assert read(store, "d", 1, 0).state == "refused"


def test_a_document_that_vanished_is_a_failure_not_an_empty_one(store):
    (store.documents_folder / store.name("d")).unlink()
    result = read(store, "d")
    assert (result.state, result.document_id) == ("failed", "")
    assert "No such file" in result.cause


def test_a_line_is_covered_by_spans_that_meet_white_space_at_its_ends_aside():
    shown = ShownLines([ShownSpan("d", 1, 4, 8, 9), ShownSpan("d", 1, 1, 4, 20)])
    assert shown.covers("d", 1, " abcdefg")
    assert not shown.covers("d", 1, " abcdefgh")
    assert not shown.covers("d", 2, "x")
    assert not shown.covers("e", 1, " abcdefg")
    assert shown.covers("d", 9, "  \r")
    assert shown.covers("d", 1, " abcdefgh", start=2, end=5)
