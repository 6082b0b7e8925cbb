import json

import pyarrow as pa
import pytest
from pyarrow import parquet

from agentic_r.config import FilesData
from agentic_r.corpus.readers import read_documents
from agentic_r.corpus.report import ReadingReport
from agentic_r.errors import DataError
from agentic_r.types import Document


def read(path, *, broken_lines="stop", **settings):
    report = ReadingReport(broken_lines=broken_lines)
    data = FilesData(kind="files", documents=path, questions=path.parent / "none.jsonl", **settings)
    return [placed.document for placed in read_documents(data, report=report)], report


def file_of(folder, content, name="docs.jsonl"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    return path


def test_h1_separators_inside_strings_do_not_split_lines(tmp_path):
    lines = '{"id":"a","text":"one"}\n{"id":"b","text":"two\u2028lines"}\n{"id":"c","text":"next\u0085line"}\n'
    documents, report = read(file_of(tmp_path, lines))
    assert [(item.id, item.text) for item in documents] == [
        ("a", "one"),
        ("b", "two\u2028lines"),
        ("c", "next\u0085line"),
    ]
    assert report.num_skipped == 0


H2 = '{"id":"1","text":"x"}\n\n   \n{"id":"2","text":"y"\n[1]\n{"id":"3","text":"z"}\n'


def test_h2_a_broken_line_stops_and_is_named(tmp_path):
    path = file_of(tmp_path, H2)
    with pytest.raises(DataError) as caught:
        read(path)
    assert str(caught.value).startswith(f"{path}:4: not JSON (")
    assert "\n" not in str(caught.value)


def test_h2_broken_lines_are_counted_when_skipped(tmp_path):
    documents, report = read(file_of(tmp_path, H2), broken_lines="skip")
    assert [item.id for item in documents] == ["1", "3"]
    assert report.summary(2) == "kept 2, skipped 2: line 4 (not JSON), line 5 (not an object)"
    assert report.ignored["blank line"].count == 2
    assert report.read == 4


@pytest.mark.parametrize(
    ("row", "document"),
    [
        ('{"_id":"a","title":"T","text":"x"}', Document("a", "T", "x")),
        ('{"docid":"a","contents":"only one line"}', Document("a", "", "only one line")),
        ('{"doc_id":"a","body":"x"}', Document("a", "", "x")),
        ('{"id":7,"text":"x"}', Document("7", "", "x")),
        ('{"id":1e3,"text":"x"}', Document("1e3", "", "x")),
        ('{"id":123456789012345678901234567890,"text":"x"}', Document("123456789012345678901234567890", "", "x")),
        ('{"id":" 07 ","text":"x"}', Document(" 07 ", "", "x")),
        ('{"id":"a","contents":"\\"Paris\\"\\nParis is big."}', Document("a", "Paris", '"Paris"\nParis is big.')),
        ('{"id":"a","contents":"Paris\\nParis is big."}', Document("a", "Paris", "Paris\nParis is big.")),
        ('{"id":"a","title":"T","contents":"Paris\\nbig"}', Document("a", "T", "Paris\nbig")),
        ('{"id":"a","text":"Paris\\nbig"}', Document("a", "", "Paris\nbig")),
        ('{"id":"a","title":null,"text":"x"}', Document("a", "", "x")),
    ],
)
def test_fields_are_found_under_their_usual_names(tmp_path, row, document):
    assert read(file_of(tmp_path, row))[0] == [document]


def test_a_long_first_line_of_contents_is_no_title(tmp_path):
    row = json.dumps({"id": "a", "contents": "word " * 60 + "\nmore"})
    assert read(file_of(tmp_path, row))[0][0].title == ""


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ('{"text":"x"}', "no id"),
        ('{"id":"","text":"x"}', "empty id"),
        ('{"id":true,"text":"x"}', "id is not text"),
        ('{"id":"a"}', "no text"),
        ('{"id":"a","text":null}', "no text"),
        ('{"id":"a","text":5}', "text is not a string"),
        ('{"id":"a","text":["x"]}', "text is not a string"),
        ('{"id":"a","title":["x"],"text":"x"}', "title is not a string"),
        ('{"id":"a","text":"\\ud83d"}', "not Unicode"),
        ("[" * 100000, "not JSON"),
        (b'{"id":"a","text":"\xff"}', "not UTF-8"),
    ],
)
def test_a_row_that_cannot_be_used_is_named_with_its_reason(tmp_path, row, reason):
    path = file_of(tmp_path, row)
    with pytest.raises(DataError, match=f"{path.name}:1: {reason}"):
        read(path)
    documents, report = read(path, broken_lines="skip")
    assert documents == []
    assert {name: tally.count for name, tally in report.skipped.items()} == {reason: 1}


def test_a_byte_order_mark_and_crlf_are_no_part_of_the_text(tmp_path):
    path = file_of(tmp_path, b'\xef\xbb\xbf{"id":"a","text":"x"}\r\n{"id":"b","text":"y"}\r\n')
    assert [item.text for item in read(path)[0]] == ["x", "y"]


def test_a_utf16_file_is_named_as_such(tmp_path):
    with pytest.raises(DataError, match="UTF-16"):
        read(file_of(tmp_path, '{"id":"a","text":"x"}'.encode("utf-16")))


def test_fields_that_are_not_read_are_counted(tmp_path):
    _, report = read(file_of(tmp_path, '{"id":"a","text":"x","url":"u"}\n{"id":"b","text":"x","url":"u","n":1}\n'))
    assert report.unused_fields == {"url": 2, "n": 1}


def test_listed_cases_are_capped_and_counts_are_not(tmp_path):
    _, report = read(file_of(tmp_path, "broken\n" * 250), broken_lines="skip")
    assert report.skipped["not JSON"].count == 250
    assert len(report.skipped["not JSON"].listed) == 100
    assert report.summary(0).endswith("and 150 more")


def test_tsv_with_a_header_may_have_any_order(tmp_path):
    path = file_of(tmp_path, 'id\ttext\ttitle\n1\t"Aaron ( ""Aharon"") is"\tAaron\n2\ta "b" c\tB\n', "docs.tsv")
    assert read(path)[0] == [Document("1", "Aaron", 'Aaron ( "Aharon") is'), Document("2", "B", 'a "b" c')]


def test_tsv_of_two_columns_without_a_header_is_id_and_text(tmp_path):
    assert read(file_of(tmp_path, "7\tx y\r\n8\tz\r\n", "docs.tsv"))[0] == [
        Document("7", "", "x y"),
        Document("8", "", "z"),
    ]


def test_tsv_of_three_columns_needs_a_header(tmp_path):
    with pytest.raises(DataError, match=r"3 columns and no header; put a header line such as id text"):
        read(file_of(tmp_path, "7\tx\ty\n", "docs.tsv"))


def test_tsv_rows_of_another_width_are_broken_lines(tmp_path):
    documents, report = read(file_of(tmp_path, "1\tx\n2\ty\tz\n3\n", "docs.tsv"), broken_lines="skip")
    assert [item.id for item in documents] == ["1"]
    assert report.skipped["wrong number of columns"].count == 2


def test_parquet_rows_are_documents(tmp_path):
    path = tmp_path / "docs.parquet"
    parquet.write_table(pa.table({"id": [7, 8], "text": ["x", None], "title": ["T", "U"]}), path)
    documents, report = read(path, broken_lines="skip")
    assert documents == [Document("7", "T", "x")]
    assert report.skipped["no text"].listed[0].place == f"{path}:2"


def test_a_file_that_is_no_parquet_is_named(tmp_path):
    with pytest.raises(DataError, match="not a readable parquet file"):
        read(file_of(tmp_path, "PAR?", "docs.parquet"))


def test_a_folder_gives_text_files_in_the_order_of_their_paths(tmp_path):
    root = tmp_path / "corpus"
    (root / "b").mkdir(parents=True)
    file_of(root, "intro\n```\n# not this\n```\n## The *real* title ##\nbody", "z.md")
    file_of(root / "b", b"\xef\xbb\xbfone\r\ntwo", "a.txt")
    file_of(root, '{"id":"r","text":"row"}\n', "rows.jsonl")
    assert read(root)[0] == [
        Document("b/a.txt", "a", "one\r\ntwo"),
        Document("r", "", "row"),
        Document("z.md", "The *real* title", "intro\n```\n# not this\n```\n## The *real* title ##\nbody"),
    ]


def test_a_markdown_file_without_a_heading_is_named_by_its_stem(tmp_path):
    root = tmp_path / "corpus"
    root.mkdir()
    file_of(root, "#hashtag is no heading", "notes.md")
    assert read(root)[0][0].title == "notes"


def test_files_of_a_folder_that_are_not_read_are_counted(tmp_path):
    root = tmp_path / "corpus"
    root.mkdir()
    for name in ("a.txt", "b.pdf", "c.pdf", ".hidden.txt", "questions.jsonl"):
        file_of(root, "x", name)
    report = ReadingReport()
    data = FilesData(kind="files", documents=root, questions=root / "questions.jsonl")
    assert [placed.document.id for placed in read_documents(data, report=report)] == ["a.txt"]
    assert {reason: tally.count for reason, tally in report.ignored.items()} == {
        "file type .pdf": 2,
        "hidden": 1,
        "question or demonstration file": 1,
    }


def test_a_text_file_that_is_not_utf8_is_named_or_counted(tmp_path):
    root = tmp_path / "corpus"
    root.mkdir()
    file_of(root, b"caf\xe9", "latin.txt")
    file_of(root, "ok", "ok.txt")
    with pytest.raises(DataError, match=r"latin\.txt: not UTF-8 \(byte 4"):
        read(root)
    documents, report = read(root, broken_lines="skip")
    assert [item.id for item in documents] == ["ok.txt"]
    assert report.skipped["not UTF-8"].listed[0].id == "latin.txt"


@pytest.mark.parametrize(("name", "text"), [("missing.jsonl", "no such file"), ("empty", "no file of a type")])
def test_a_source_that_is_missing_or_empty_is_one_line(tmp_path, name, text):
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=text):
        read(tmp_path / name)


def test_a_file_of_another_type_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"files of type '\.json' are not read"):
        read(file_of(tmp_path, "[]", "docs.json"))
