from pathlib import Path

import pytest

from agentic_r.artifacts.jsonl import json_line, read_jsonl, write_json, write_jsonl, write_text_atomic
from agentic_r.errors import DataError

HALF = "\ud83d"  # the first half of a surrogate pair


def test_h1_line_separators_inside_strings_stay_inside(tmp_path: Path) -> None:
    rows = [
        {"id": "a", "text": "one"},
        {"id": "b", "text": "two\u2028lines"},
        {"id": "c", "text": "next\u0085line\n\r"},
    ]
    assert write_jsonl(tmp_path / "x.jsonl", rows) == 3
    assert (tmp_path / "x.jsonl").read_bytes().count(b"\n") == 3
    assert list(read_jsonl(tmp_path / "x.jsonl")) == rows


def test_text_is_written_as_it_is_and_not_escaped(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "x.jsonl", [{"text": "café 西"}])
    assert (tmp_path / "x.jsonl").read_text(encoding="utf-8") == '{"text": "café 西"}\n'


@pytest.mark.parametrize("line", [b'{"id": "2", "text": "y"', b"[1]", b"\xff\xfe{", b'"x"'])
def test_a_line_that_is_no_object_names_file_and_line(tmp_path: Path, line: bytes) -> None:
    file = tmp_path / "x.jsonl"
    file.write_bytes(b'{"id": 1}\n\n   \n' + line + b"\n")
    with pytest.raises(DataError, match=r"x\.jsonl:4: "):
        list(read_jsonl(file))


def test_half_a_surrogate_pair_is_a_data_error_that_names_record_and_place(tmp_path: Path) -> None:
    file = tmp_path / "x.jsonl"
    write_jsonl(file, [{"id": "old"}])
    with pytest.raises(DataError, match=r"x\.jsonl, record 2: U\+D83D after .*a smile ") as caught:
        write_jsonl(file, [{"id": "1"}, {"text": f"a smile {HALF} is broken"}])
    assert "\n" not in str(caught.value)
    assert list(read_jsonl(file)) == [{"id": "old"}]


def test_half_a_surrogate_pair_is_refused_in_every_kind_of_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="half of a surrogate pair"):
        write_json(tmp_path / "x.json", {"a": HALF})
    with pytest.raises(DataError, match="half of a surrogate pair"):
        write_text_atomic(tmp_path / "x.txt", HALF)
    with pytest.raises(DataError, match="here: "):
        json_line({"a": HALF}, where="here")


def test_a_whole_surrogate_pair_is_one_character_and_is_written(tmp_path: Path) -> None:
    write_json(tmp_path / "x.json", {"a": "\U0001f600"})
    assert "\U0001f600" in (tmp_path / "x.json").read_text(encoding="utf-8")


def test_a_file_whose_writing_fails_keeps_its_old_content(tmp_path: Path) -> None:
    file = tmp_path / "x.jsonl"
    write_jsonl(file, [{"id": "old"}])

    def rows():
        yield {"id": "new"}
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_jsonl(file, rows())
    assert list(read_jsonl(file)) == [{"id": "old"}]
