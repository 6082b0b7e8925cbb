"""The contract of every retriever, and what is each one's own."""

import numpy as np
import pytest

from agentic_r.config import Bm25Config
from agentic_r.errors import ToolFailure
from agentic_r.index.bm25 import build_bm25_index
from agentic_r.index.retriever import Bm25Retriever, DenseRetriever, QueryOnly
from agentic_r.index.rows import rank_by_best_passage
from agentic_r.protocols import Retriever
from agentic_r.types import Passage, QueryText, ScoredPassage, SearchResult


@pytest.fixture(params=["dense", "query only", "bm25"])
def retriever(request, table_encoder, passages, build, tmp_path):
    if request.param != "bm25":
        dense = DenseRetriever(table_encoder, build(table_encoder, passages))
        return QueryOnly(dense) if request.param == "query only" else dense
    return Bm25Retriever(bm25(tmp_path / "bm25", [Passage(p.id, p.document_id, "east", p.text) for p in passages]))


def bm25(folder, passages):
    return build_bm25_index(
        folder, passages, corpus_fingerprint="c", config=Bm25Config(), progress=lambda done, total: None
    )


def test_contract_one_result_a_query_in_order(retriever):
    checked: Retriever = retriever
    both = checked.search([QueryText("fox"), QueryText("east")], k=3)
    assert both == [checked.search([QueryText(text)], k=3)[0] for text in ("fox", "east")]
    assert checked.search([], k=3) == []


def test_contract_at_most_k_different_passages_best_first_ties_by_id(retriever):
    for k in (1, 3, 7, 50):
        (result,) = retriever.search([QueryText("east")], k=k)
        keys = [(-hit.value, hit.passage_id) for hit in result.passages]
        assert result.state == "ok"
        assert keys == sorted(set(keys))
        assert len(keys) == min(k, 7)
        assert all(type(hit.value) is float and np.isfinite(hit.value) for hit in result.passages)


def test_contract_shallow_results_are_starts_of_deep_ones(retriever):
    deep = retriever.search([QueryText("east")], k=7)[0].passages
    for k in range(1, 7):
        assert retriever.search([QueryText("east")], k=k)[0].passages == deep[:k]


def test_contract_k_below_one_is_a_callers_bug(retriever):
    with pytest.raises(ValueError, match="k is 0"):
        retriever.search([QueryText("east")], k=0)


def test_contract_documents_rank_by_their_best_passage_once_each(retriever):
    ranked = retriever.rank_documents(QueryText("east"), k=10)
    assert sorted(document.document_id for document in ranked) == ["d0", "d1", "d2", "d3"]
    assert [(-d.value, d.document_id) for d in ranked] == sorted((-d.value, d.document_id) for d in ranked)
    assert retriever.rank_documents(QueryText("east"), k=2) == ranked[:2]


def test_documents_rank_by_best_passage_by_hand(table_encoder, passages, build):
    # d0: fox 1.0, dog 0.8; d1: hen 0.6, owl 0.6; d2: bee 0, cat 0.6; d3: cow -1
    ranked = DenseRetriever(table_encoder, build(table_encoder, passages)).rank_documents(QueryText("east"), k=3)
    assert [(document.document_id, document.value) for document in ranked] == [("d0", 1.0), ("d1", 0.6), ("d2", 0.6)]


def test_document_that_ties_beyond_the_first_depth_is_still_placed_by_id():
    hits = [ScoredPassage(f"p{n:02d}", 1.0) for n in range(30)]
    documents = {f"p{n:02d}": f"d{29 - n:02d}" for n in range(30)}

    def search(depth):
        return SearchResult(tuple(hits[:depth]), "ok")

    assert [document.document_id for document in rank_by_best_passage(search, documents, k=2)] == ["d00", "d01"]


def test_document_with_many_passages_does_not_hide_the_next():
    hits = [ScoredPassage(f"p{n:02d}", 1 - n / 100) for n in range(50)]
    documents = {f"p{n:02d}": "long" if n < 45 else f"short{n}" for n in range(50)}
    ranked = rank_by_best_passage(lambda depth: SearchResult(tuple(hits[:depth]), "ok"), documents, k=2)
    assert [document.document_id for document in ranked] == ["long", "short45"]


def test_bm25_reads_the_query_alone(passages, tmp_path):
    retriever = Bm25Retriever(bm25(tmp_path, passages))
    assert retriever.format_query(QueryText("fox", "about a dog")) == "fox"
    assert [hit.passage_id for hit in retriever.search([QueryText("fox", "about a dog")], k=5)[0].passages] == ["p0"]
    assert retriever.search([QueryText("zzz", "fox")], k=5)[0].state == "empty"
    assert retriever.rank_documents(QueryText("zzz"), k=5) == []


def test_query_only_leaves_the_question_out_everywhere(make_encoder, passages, build):
    encoder = make_encoder()
    inner = DenseRetriever(encoder, build(encoder, passages))
    query, alone = QueryText("fox", "one two three river"), QueryText("fox")
    retriever = QueryOnly(inner)
    assert retriever.format_query(query) == "query: fox"
    assert retriever.search([query], k=3) == inner.search([alone], k=3) != inner.search([query], k=3)
    assert retriever.rank_documents(query, k=3) == inner.rank_documents(alone, k=3)
    assert retriever.fingerprint != inner.fingerprint


def test_dense_input_is_the_encoders_format(make_encoder, passages, build):
    encoder = make_encoder()
    retriever = DenseRetriever(encoder, build(encoder, passages))
    assert retriever.format_query(QueryText("fox", "river")) == "query: river [SEP] fox"


@pytest.mark.parametrize("error", [ToolFailure("no card left"), RuntimeError("out of\nmemory")])
def test_failed_search_is_recorded_as_failed_with_its_cause_and_not_as_empty(table_encoder, passages, build, error):
    retriever = DenseRetriever(table_encoder, build(table_encoder, passages))

    def fail(queries):
        raise error

    table_encoder.encode_queries = fail
    results = retriever.search([QueryText("east"), QueryText("north")], k=3)
    assert [(result.state, result.passages) for result in results] == [("failed", ())] * 2
    assert results[0].cause == f"{type(error).__name__}: {' '.join(str(error).split())}"
    with pytest.raises(ToolFailure, match=type(error).__name__):
        retriever.rank_documents(QueryText("east"), k=3)


def test_h5_tail_of_a_long_document_is_found_where_it_is_split_into_passages(make_encoder, build, tmp_path):
    words = ["common", "words", "of", "a", "long", "text"] * 82 + [
        "with",
        "zebra-42",
        "in",
        "the",
        "end",
        "of",
        "it",
        "all",
    ]
    assert len(words) == 500
    text = " ".join(words)
    whole = [Passage("long", "long", "", text)]
    chunks, start = [], 0
    for number in range(0, 500, 20):
        part = " ".join(words[number : number + 20])
        start = text.index(part, start)
        chunks.append(Passage(f"long#{number // 20}", "long", "", part, start))
    encoder = make_encoder(max_passage_tokens=64)
    measured = encoder.measure_passages(whole)
    assert measured.cut == ("long",)
    assert measured.num_tokens - measured.num_tokens_lost == 64
    assert encoder.measure_passages(chunks[-1:]).num_tokens > 0
    (found,) = Bm25Retriever(bm25(tmp_path / "chunks", chunks)).search([QueryText("zebra-42")], k=3)
    assert [hit.passage_id for hit in found.passages] == ["long#24"]
    assert text[chunks[24].start :] == chunks[24].text
    assert (
        Bm25Retriever(bm25(tmp_path / "chunks2", chunks)).rank_documents(QueryText("zebra-42"), k=1)[0].document_id
        == "long"
    )


def test_h4_empty_texts_have_finite_vectors_and_ok_is_found_first(make_encoder, build):
    encoder = make_encoder()
    passages = [Passage("e1", "e1", "", ""), Passage("e2", "e2", "", "   "), Passage("e3", "e3", "", "\u200b")]
    retriever = DenseRetriever(encoder, build(encoder, [*passages, Passage("ok", "ok", "", "fox")]))
    (result,) = retriever.search([QueryText("fox")], k=4)
    assert len(result.passages) == 4
    assert all(np.isfinite(hit.value) for hit in result.passages)
