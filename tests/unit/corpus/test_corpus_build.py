import json
import tracemalloc

import pytest

from agentic_r.artifacts.stage import StageIdentity, open_stage
from agentic_r.config import PassagesConfig
from agentic_r.corpus.build import build_corpus
from agentic_r.corpus.readers import place_documents
from agentic_r.corpus.report import ReadingReport
from agentic_r.corpus.store import corpus_fingerprint, load_corpus
from agentic_r.errors import DataError, FingerprintError, StaleError
from agentic_r.types import Document


def build(folder, rows, *, conflicting_ids="stop", **settings):
    stage = open_stage(folder, StageIdentity("corpus", 1, {}, {}, 0))
    report = ReadingReport()
    documents = [Document(identifier, "", text) for identifier, text in rows]
    seen = []
    made = build_corpus(
        stage,
        place_documents(documents, report=report, origin="docs"),
        passages=PassagesConfig(**settings),
        report=report,
        conflicting_ids=conflicting_ids,
        progress=lambda done, total: seen.append((done, total)),
    )
    stage.finish()
    return stage, made, seen


def test_a_corpus_is_read_back_as_it_was_built(tmp_path):
    stage, made, seen = build(
        tmp_path / "c", [("b", "one two\u2028three"), ("a", "four. five six seven eight nine")], max_words=5
    )
    corpus = load_corpus(tmp_path / "c")
    assert list(corpus.documents) == ["b", "a"]
    assert corpus.documents["b"].text == "one two\u2028three"
    assert list(corpus.passages) == ["b#0", "a#0", "a#1"]
    assert [item.id for item in corpus.passages_of("a")] == ["a#0", "a#1"]
    assert corpus.fingerprint == made.fingerprint == corpus_fingerprint(tmp_path / "c")
    assert (stage.counts["documents"], stage.counts["passages"], stage.counts["words"]) == (2, 3, 9)
    assert seen[-1] == (2, 2)


def test_the_fingerprint_depends_on_the_texts_alone(tmp_path):
    first = build(tmp_path / "1", [("a", "x")])[1].fingerprint
    assert build(tmp_path / "2", [("a", "x")])[1].fingerprint == first
    assert build(tmp_path / "3", [("a", "y")])[1].fingerprint != first


def test_h3_a_repeated_row_is_kept_once_and_an_equal_text_is_listed(tmp_path):
    stage, _, _ = build(tmp_path / "c", [("d1", "A"), ("d1", "A"), ("d2", "B"), ("d3", "A")])
    report = json.loads((tmp_path / "c" / "report.json").read_text())
    corpus = load_corpus(tmp_path / "c")
    assert list(corpus.documents) == ["d1", "d2", "d3"]
    assert (stage.counts["repeated"], stage.counts["same_text"], stage.skipped) == (1, 1, {})
    assert report["warned"]["same text under another id"]["listed"] == [
        {"place": "docs:4", "id": "d3", "note": "same text as d1"}
    ]
    assert corpus.same_text_passages() == {"d3#0": "d1#0"}


def test_h3_an_id_with_two_texts_is_an_error_that_names_both_places(tmp_path):
    with pytest.raises(DataError, match=r"docs:4: id 'd2' was used at docs:3 with another title or text"):
        build(tmp_path / "c", [("d1", "A"), ("d1", "A"), ("d2", "B"), ("d2", "C"), ("d3", "A")])
    assert not list((tmp_path / "c").glob("documents*"))


def test_h3_the_first_text_of_an_id_is_kept_when_asked(tmp_path):
    stage, _, _ = build(tmp_path / "c", [("d2", "B"), ("d2", "C")], conflicting_ids="first")
    assert load_corpus(tmp_path / "c").documents["d2"].text == "B"
    assert stage.skipped == {"id used twice with different texts": 1}


def test_h4_empty_texts_are_left_out_with_their_ids(tmp_path):
    stage, made, _ = build(tmp_path / "c", [("a", ""), ("b", "   "), ("c", "\u200b"), ("d", "ok")])
    assert list(load_corpus(tmp_path / "c").passages) == ["d#0"]
    assert stage.skipped == {"empty text": 3}
    assert [case.id for case in made.reading.skipped["empty text"].listed] == ["a", "b", "c"]


def test_h4_empty_texts_kept_by_choice_are_one_passage_each(tmp_path):
    build(tmp_path / "c", [("a", ""), ("b", "   "), ("c", "\u200b"), ("d", "ok")], keep_empty=True)
    corpus = load_corpus(tmp_path / "c")
    assert [(item.id, item.text) for item in corpus.passages.values()] == [
        ("a#0", ""),
        ("b#0", "   "),
        ("c#0", "\u200b"),
        ("d#0", "ok"),
    ]
    assert corpus.same_text_passages() == {}


def test_h5_a_long_document_is_reported_and_its_end_is_a_passage(tmp_path):
    # 500 words, limit 64: 436 words beyond the first 64 = 87.2 %
    words = ["common"] * 495 + ["zebra-42"] + ["common"] * 4
    stage, _, _ = build(tmp_path / "c", [("d", " ".join(words))], max_words=64)
    report = json.loads((tmp_path / "c" / "report.json").read_text())
    assert stage.counts["long_documents"] == 1
    assert report["share_of_words_beyond"] == pytest.approx(0.872)
    assert report["long_documents"]["listed"][0]["note"] == "500 words, 87% of them beyond the first 64"
    corpus = load_corpus(tmp_path / "c")
    [holder] = [item for item in corpus.passages.values() if "zebra-42" in item.text]
    assert holder == corpus.passages_of("d")[-1]
    assert corpus.documents["d"].text[holder.start :].startswith(holder.text)


def test_a_corpus_without_documents_is_an_error(tmp_path):
    with pytest.raises(DataError, match="no document is left of 1 read"):
        build(tmp_path / "c", [("a", " ")])


def test_an_unfinished_corpus_is_refused(tmp_path):
    build(tmp_path / "c", [("a", "x")])
    (tmp_path / "c" / "report.json").unlink()
    with pytest.raises(StaleError, match="no finished corpus"):
        load_corpus(tmp_path / "c")


@pytest.mark.parametrize("change", ['"y"', '"x', "5"])
def test_a_corpus_that_was_changed_by_hand_is_refused(tmp_path, change):
    build(tmp_path / "c", [("a", "x")])
    path = tmp_path / "c" / "passages.jsonl"
    path.write_text(path.read_text().replace('"x"', change))
    with pytest.raises(FingerprintError, match="changed by hand"):
        load_corpus(tmp_path / "c")
    with pytest.raises(FingerprintError, match="changed by hand"):
        corpus_fingerprint(tmp_path / "c")


def test_memory_does_not_grow_with_the_texts(tmp_path):
    # 150 documents of 20,000 characters: 3 MB read, and again 3 MB of passages
    stage = open_stage(tmp_path / "c", StageIdentity("corpus", 1, {}, {}, 0))
    report = ReadingReport()
    documents = (Document(f"d{number}", "", f"{number} " + "abcdefghi " * 2000) for number in range(150))
    tracemalloc.start()
    build_corpus(
        stage,
        place_documents(documents, report=report, origin="docs"),
        passages=PassagesConfig(),
        report=report,
        conflicting_ids="stop",
        progress=lambda done, total: None,
    )
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000_000


def test_files_left_by_a_killed_build_are_written_anew(tmp_path):
    unbroken = build(tmp_path / "1", [("a", "x"), ("b", "y")])[1].fingerprint
    identity = StageIdentity("corpus", 1, {}, {}, 0)
    path = open_stage(tmp_path / "2", identity).path
    (path / "documents.jsonl").write_text('{"id": "a", "title": "", "text": "x"}\n')
    (path / "passages.jsonl.part").write_text('{"id": "a#0", "docu')
    assert build(tmp_path / "2", [("a", "x"), ("b", "y")])[1].fingerprint == unbroken
    assert not list(path.glob("*.part"))
    assert load_corpus(path).fingerprint == unbroken
