"""BM25: against its library, on scripts without spaces, and where nothing matches."""

import bm25s
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentic_r.config import Bm25Config
from agentic_r.errors import ConfigError
from agentic_r.index.bm25 import build_bm25_index, open_bm25_index
from agentic_r.index.words import TermSplitter
from agentic_r.types import Passage


def build(folder, texts, *, corpus="corpus", **config):
    passages = [Passage(name, name, "", text) for name, text in texts.items()]
    return build_bm25_index(
        folder,
        passages,
        corpus_fingerprint=corpus,
        config=Bm25Config(**config),
        progress=lambda done, total: None,
    )


def found(index, query, k=10):
    return [hit.passage_id for hit in index.search([query], k=k)[0].passages]


TEXTS = {
    "a": "The quick brown foxes jump",
    "b": "a fox and a hen",
    "c": "西游记是一部小说",
    "d": "room 7 of building b",
    "e": "nothing to see",
}


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("Foxes jumping", ["fox", "jump"]),
        ("a b 7 42", ["a", "b", "7", "42"]),
        ("zebra-42", ["zebra", "42"]),
        ("Pekar’s Pekar's", ["pekar", "pekar"]),
        ("snake_case", ["snake", "case"]),
        ("西游记", ["西", "游", "记", "西游", "游记"]),
        ("的", ["的"]),
        ("see西游", ["see", "西", "游", "西游"]),
        ("ｸﾞｰｸﾞﾙ", ["グ", "ー", "グ", "ル", "グー", "ーグ", "グル"]),
        ("cafe\u0301 café", ["café", "café"]),
        ("हिन्दी", ["हिन्दी"]),
        ("\u200b …!", []),
    ],
)
def test_terms(text, terms):
    assert TermSplitter().terms(text) == terms


def test_scores_and_order_equal_the_librarys(tmp_path):
    index = build(tmp_path / "index", TEXTS, k1=0.9, b=0.4)
    splitter = TermSplitter()
    library = bm25s.BM25(k1=0.9, b=0.4, method="lucene")
    library.index([splitter.terms(text) for text in TEXTS.values()], show_progress=False)
    for query in ("fox hen", "a fox", "小说 7", "brown fox building"):
        rows, scores = library.retrieve([splitter.terms(query)], k=5, show_progress=False)
        expected = {[*TEXTS][row]: float(score) for row, score in zip(rows[0], scores[0], strict=True) if score > 0}
        hits = {hit.passage_id: hit.value for hit in index.search([query], k=5)[0].passages}
        assert hits == pytest.approx(expected, rel=1e-6)
        assert list(hits.values()) == sorted(hits.values(), reverse=True)


def test_passages_without_a_term_of_the_query_are_no_hits(tmp_path):
    assert sorted(found(build(tmp_path / "index", TEXTS), "fox")) == ["a", "b"]


def test_unknown_words_give_an_empty_result(tmp_path):
    (result,) = build(tmp_path / "index", TEXTS).search(["xyzzy 999"], k=3)
    assert (result.state, result.passages) == ("empty", ())


def test_query_without_a_term_gives_an_empty_result(tmp_path):
    assert [result.state for result in build(tmp_path / "index", TEXTS).search(["", "…"], k=3)] == ["empty", "empty"]


def test_one_character_and_digit_queries_find_their_passages(tmp_path):
    index = build(tmp_path / "index", TEXTS)
    assert found(index, "7") == ["d"]
    assert found(index, "书 说") == ["c"]


def test_k_beyond_the_corpus_is_safe(tmp_path):
    index = build(tmp_path / "index", TEXTS)
    assert found(index, "a b fox 小说 see", k=500) == found(index, "a b fox 小说 see", k=5)


def test_equal_scores_are_ordered_by_passage_id_also_at_the_border(tmp_path):
    index = build(tmp_path / "index", {f"p{n}": "same words" for n in (3, 1, 4, 0, 2)})
    assert found(index, "same", k=3) == ["p0", "p1", "p2"]


def test_h4_empty_texts_are_never_hits_and_break_nothing(tmp_path):
    index = build(tmp_path / "index", {"e1": "", "e2": "   ", "e3": "\u200b", "ok": "ok"})
    assert found(index, "ok") == ["ok"]
    assert all(np.isfinite(hit.value) for hit in index.search(["ok"], k=4)[0].passages)


def test_h4_corpus_of_empty_texts_and_no_corpus_at_all_are_empty_results(tmp_path):
    for name, texts in (("empty", {"e": ""}), ("none", {})):
        build(tmp_path / name, texts)
        assert open_bm25_index(tmp_path / name).search(["ok"], k=3)[0].state == "empty"


def test_titles_are_searched_too(tmp_path):
    index = build_bm25_index(
        tmp_path,
        [Passage("a", "a", "Gerry Shamray", "He is an artist.")],
        corpus_fingerprint="c",
        config=Bm25Config(),
        progress=lambda done, total: None,
    )
    assert found(index, "shamray") == ["a"]


def test_opened_index_finds_what_the_built_one_finds(tmp_path):
    built = build(tmp_path / "index", TEXTS)
    opened = open_bm25_index(tmp_path / "index")
    for query in ("fox", "小说", "a b 7"):
        assert opened.search([query], k=4) == built.search([query], k=4)
    assert opened.fingerprint == built.fingerprint


def test_fingerprint_knows_corpus_k1_and_b(tmp_path):
    prints = {
        build(tmp_path / str(number), TEXTS, **changes).fingerprint
        for number, changes in enumerate([{}, {"k1": 0.9}, {"b": 0.4}, {"corpus": "other"}])
    }
    assert len(prints) == 4


def test_other_settings_in_the_same_folder_build_again(tmp_path):
    before = build(tmp_path / "index", TEXTS, k1=1.5).search(["fox"], k=1)
    after = build(tmp_path / "index", TEXTS, k1=0.1).search(["fox"], k=1)
    assert before != after
    assert open_bm25_index(tmp_path / "index").search(["fox"], k=1) == after


def test_folder_without_an_index_is_a_users_error(tmp_path):
    with pytest.raises(ConfigError, match="no finished BM25 index"):
        open_bm25_index(tmp_path)


@settings(max_examples=150, deadline=None)
@given(st.text())
def test_terms_are_never_empty_and_hold_no_space(text):
    assert all(term and not term.isspace() for term in TermSplitter().terms(text))
