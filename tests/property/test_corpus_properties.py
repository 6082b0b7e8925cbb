import json
import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from agentic_r.config import FilesData
from agentic_r.corpus.gold import complete_evidence, evidence_passages
from agentic_r.corpus.passages import split_document
from agentic_r.corpus.readers import read_documents
from agentic_r.corpus.report import ReadingReport
from agentic_r.corpus.text import count_words
from agentic_r.types import Document, Evidence

ALPHABET = list("ab.!? \n\t\r\u2028\u0085西游。》《かガー\u3099\u200b\u00a0#\"'")
TEXTS = st.text(st.sampled_from(ALPHABET), max_size=120) | st.text(max_size=40)
LINES = st.text(st.characters(exclude_categories=("Cs",)), max_size=30)


@given(TEXTS, st.integers(1, 12))
def test_passages_stand_where_they_say_and_cover_every_visible_character_once(text, max_words):
    passages = split_document(Document("d", "", text), max_words=max_words)
    end = 0
    for number, passage in enumerate(passages):
        assert passage.id == f"d#{number}"
        assert text[passage.start : passage.start + len(passage.text)] == passage.text
        assert text[end : passage.start].strip() == ""
        end = passage.start + len(passage.text)
    assert text[end:].strip() == ""


@given(TEXTS, st.integers(1, 12))
def test_passages_keep_to_the_limit_and_never_cut_a_word(text, max_words):
    passages = split_document(Document("d", "", text), max_words=max_words)
    counts = [count_words(passage.text) for passage in passages]
    assert all(count <= max_words for count in counts)
    assert sum(counts) == count_words(text)
    assert all(2 * count >= max_words // 2 for count in counts[:-1])


@given(st.lists(st.sampled_from(["w", "w.", "w\n\n", "w\n"]), min_size=1, max_size=60), st.integers(1, 12), st.data())
def test_every_piece_of_a_document_has_gold_passages_that_cover_it(words, max_words, data):
    document = Document("d", "", " ".join(f"{word[0]}{place}{word[1:]}" for place, word in enumerate(words)))
    start = data.draw(st.integers(0, len(document.text) - 1))
    piece = document.text[start : start + data.draw(st.integers(1, 30))].strip()
    passages = split_document(document, max_words=max_words)
    evidence = complete_evidence(Evidence("d", piece), document)
    gold = evidence_passages(evidence, document, passages)
    assert gold
    if piece:
        joined = "".join("".join(passage.text.split()) for passage in gold)
        assert "".join(piece.split()) in joined


@given(st.lists(st.tuples(LINES, LINES), max_size=6))
def test_any_text_survives_being_written_raw_and_read_back(pairs):
    documents = [Document(f"d{place}", title, text) for place, (title, text) in enumerate(pairs)]
    rows = [
        json.dumps({"id": item.id, "title": item.title, "text": item.text}, ensure_ascii=False) for item in documents
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "docs.jsonl"
        path.write_bytes("\n".join(rows).encode("utf-8"))
        data = FilesData(kind="files", documents=path, questions=path)
        assert [placed.document for placed in read_documents(data, report=ReadingReport())] == documents
