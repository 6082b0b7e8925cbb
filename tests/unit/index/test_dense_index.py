"""The dense index: exact hits, ties, restarts by shard and refusal of other encoders."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from index_fakes import TableEncoder

from agentic_r.errors import ConfigError, FingerprintError
from agentic_r.index.dense import DenseIndex, StoredVectors, _Description, needed_bytes, open_dense_index
from agentic_r.index.retriever import DenseRetriever
from agentic_r.index.rows import Rows
from agentic_r.types import Passage, QueryText


class Killed(BaseException):
    """Stands for kill -9."""


def hits(result):
    return [(hit.passage_id, hit.value) for hit in result.passages]


def test_hits_are_cosines_best_first_and_ties_by_passage_id(table_encoder, passages, build):
    index = build(table_encoder, passages)
    (found,) = index.search(np.array([[1, 0]], np.float32), k=4)
    # fox 1.0, dog 0.8, then hen (p2), owl (p3), cat (p5) all 0.6: two of three, by id
    assert hits(found) == [("p0", 1.0), ("p1", 0.8), ("p2", 0.6), ("p3", 0.6)]
    assert found.state == "ok"


def test_tie_across_the_border_keeps_the_smallest_ids_however_many_there_are(build):
    passages = [Passage(f"p{n:03d}", "d", "", "same") for n in range(99, -1, -1)]
    index = build(TableEncoder({"same": (1, 0)}), passages, shard=7)
    (found,) = index.search(np.array([[1, 0]], np.float32), k=3)
    assert [hit.passage_id for hit in found.passages] == ["p000", "p001", "p002"]


def test_h6_three_documents_and_k_five_give_exactly_three(make_encoder, build):
    index = build(make_encoder(), [Passage(name, name, "", name) for name in ("fox", "dog", "river")])
    (found,) = DenseRetriever(make_encoder(), index).search([QueryText("fox")], k=5)
    assert sorted(hit.passage_id for hit in found.passages) == ["dog", "fox", "river"]
    assert all(np.isfinite(hit.value) for hit in found.passages)
    assert found.state == "ok"


def test_empty_corpus_is_an_empty_result(make_encoder, build):
    encoder = make_encoder()
    index = build(encoder, [])
    assert DenseRetriever(encoder, index).search([QueryText("fox")], k=5)[0].state == "empty"
    assert index.search(encoder.encode_queries([]), k=5) == []


@settings(max_examples=40, deadline=None)
@given(
    vectors=st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3)), min_size=1, max_size=40),
    k=st.integers(1, 50),
)
def test_flat_search_equals_sorting_every_score(vectors, k):
    rows = Rows(tuple(f"p{(7 * n) % 41:02d}" for n in range(len(vectors))), ("d",) * len(vectors))
    matrix = np.array(vectors, np.float32)
    description = _Description(
        schema_version=1,
        encoder="e",
        corpus="c",
        dimension=2,
        passages=len(vectors),
        shards=1,
        encoded=0,
        memory_bytes=0,
    )
    index = DenseIndex(description, rows, [matrix])
    (found,) = index.search(np.array([[2, 1]], np.float32), k=k)
    scores = matrix @ np.array([2, 1], np.float32)
    expected = sorted(((-float(score), name) for score, name in zip(scores, rows.passage_ids, strict=True)))[:k]
    assert hits(found) == [(name, -score) for score, name in expected]


def test_unchanged_second_build_encodes_nothing(table_encoder, passages, build):
    first = build(table_encoder, passages)
    assert (first.encoded, table_encoder.num_encoded) == (7, 7)
    second = build(table_encoder, passages)
    assert (second.encoded, table_encoder.num_encoded) == (0, 7)
    assert second.fingerprint == first.fingerprint


def test_killed_build_keeps_whole_shards(table_encoder, passages, build):
    def progress(done, total):
        if done >= 4:
            raise Killed

    with pytest.raises(Killed):
        build(table_encoder, passages, progress=progress)
    assert table_encoder.num_encoded == 5  # the first shard of three, and two of the second
    index = build(table_encoder, passages)
    assert index.encoded == 4
    assert table_encoder.num_encoded == 9


def test_half_written_and_emptied_shards_are_recognised(table_encoder, passages, build, tmp_path):
    build(table_encoder, passages)
    first, second, third = sorted((tmp_path / "index").glob("vectors-*.safetensors"))
    first.write_bytes(first.read_bytes()[:-3])
    second.write_bytes(b"")
    (tmp_path / "index" / "vectors-00002.safetensors.part").write_bytes(third.read_bytes()[:9])
    index = build(table_encoder, passages)
    assert index.encoded == 6
    assert hits(index.search(np.array([[1, 0]], np.float32), k=1)[0]) == [("p0", 1.0)]
    assert not list((tmp_path / "index").glob("*.part"))


def test_killed_build_is_not_an_index_and_a_lost_shard_is_named(table_encoder, passages, build, tmp_path):
    def progress(done, total):
        if done >= 4:
            raise Killed

    build(table_encoder, passages)
    with pytest.raises(Killed):
        build(table_encoder, [*passages, Passage("new", "new", "", "fox")], shard=2, progress=progress)
    with pytest.raises(ConfigError, match="no finished index"):
        open_dense_index(tmp_path / "index", table_encoder)
    build(table_encoder, passages)
    (tmp_path / "index" / "vectors-00001.safetensors").unlink()
    with pytest.raises(ConfigError, match=r"vectors-00001\.safetensors: missing or broken"):
        open_dense_index(tmp_path / "index", table_encoder)
    stored = StoredVectors(tmp_path / "index", encoder_fingerprint=table_encoder.fingerprint)
    with pytest.raises(ConfigError, match=r"vectors-00001\.safetensors: missing or broken"):
        stored.read(0, len(passages))


def test_a_vector_of_another_norm_is_a_damaged_index(table_encoder, passages, build, tmp_path):
    build(table_encoder, passages)
    file = tmp_path / "index" / "vectors-00000.safetensors"
    content = bytearray(file.read_bytes())
    content[-4:] = np.float32(700).tobytes()
    file.write_bytes(content)
    with pytest.raises(ConfigError, match="holds vectors that are not of norm 1; delete it"):
        open_dense_index(tmp_path / "index", table_encoder)


def test_names_and_vectors_of_two_builds_are_no_index(table_encoder, passages, build, tmp_path):
    build(table_encoder, passages)
    rows = tmp_path / "index" / "rows.jsonl"
    rows.write_text("".join(rows.read_text().splitlines(keepends=True)[:-1]))
    with pytest.raises(ConfigError, match=f"{len(passages)} vectors and names {len(passages) - 1} passages"):
        open_dense_index(tmp_path / "index", table_encoder)


def test_shorter_corpus_leaves_no_shard_of_the_longer_one(table_encoder, passages, build, tmp_path):
    build(table_encoder, passages)
    index = build(table_encoder, passages[:3])
    assert len(index) == 3
    assert [file.name for file in (tmp_path / "index").glob("vectors-*")] == ["vectors-00000.safetensors"]


def test_changed_text_under_the_same_id_is_encoded_again(table_encoder, passages, build):
    build(table_encoder, passages)
    changed = [*passages[:6], Passage("p6", "d3", "", "east")]
    assert build(table_encoder, changed, corpus="other").encoded == 1


@pytest.mark.parametrize(
    "changes",
    [{"seed": 1}, {"passage_prefix": "p: "}, {"query_prefix": ""}, {"max_passage_tokens": 20}, {"pooling": "cls"}],
)
def test_h7_another_encoder_encodes_everything_again_and_cannot_open_the_index(
    make_encoder, passages, build, tmp_path, changes
):
    first = make_encoder()
    other = make_encoder(**{key: value for key, value in changes.items() if key != "pooling"})
    if "pooling" in changes:
        other.model[1].pooling_mode = changes["pooling"]
    assert build(first, passages).encoded == 7
    with pytest.raises(FingerprintError) as refusal:
        open_dense_index(tmp_path / "index", other)
    assert first.fingerprint in str(refusal.value)
    assert other.fingerprint in str(refusal.value)
    index = build(other, passages)
    assert index.encoded == 7
    assert np.abs(index.search(other.encode_passages(passages[:1]), k=1)[0].passages[0].value - 1) < 1e-5
    assert build(other, passages).encoded == 0


def test_h7_retriever_refuses_an_index_of_another_encoder(make_encoder, passages, build):
    index = build(make_encoder(), passages)
    with pytest.raises(FingerprintError, match=make_encoder(seed=1).fingerprint):
        DenseRetriever(make_encoder(seed=1), index)


def test_opened_index_finds_what_the_built_one_finds(make_encoder, passages, build, tmp_path):
    encoder = make_encoder()
    built, opened = build(encoder, passages), open_dense_index(tmp_path / "index", encoder)
    vectors = encoder.encode_queries([QueryText("fox"), QueryText("river", "city")])
    assert opened.search(vectors, k=3) == built.search(vectors, k=3)
    assert opened.fingerprint == built.fingerprint


def test_hits_do_not_depend_on_how_queries_are_batched(make_encoder, passages, build):
    encoder = make_encoder()
    retriever = DenseRetriever(encoder, build(encoder, passages))
    queries = [
        QueryText(word, "city of the author") for word in ("fox", "dog", "one two", "zebra-42 red green blue")
    ] * 9
    assert retriever.search(queries, k=3) == [retriever.search([query], k=3)[0] for query in queries]


def test_progress_runs_to_the_end_and_memory_is_told(table_encoder, passages, build):
    seen = []
    index = build(table_encoder, passages, progress=lambda done, total: seen.append((done, total)))
    assert seen == sorted(seen)
    assert seen[-1] == (7, 7)
    assert index.memory_bytes == needed_bytes(7, 2) == 7 * 2 * 4


def test_vectors_that_are_not_finite_never_enter_and_never_search(build, table_encoder, passages):
    with pytest.raises(ValueError, match="not finite"):
        build(TableEncoder({"fox": (np.nan, 0)}), passages[:1], folder="broken")
    with pytest.raises(ValueError, match="not finite"):
        build(table_encoder, passages).search(np.array([[np.nan, 0]], np.float32), k=1)


def test_one_id_twice_is_a_callers_bug(table_encoder, build):
    with pytest.raises(ValueError, match="'p1' stands twice"):
        build(table_encoder, [Passage("p1", "d", "", "fox"), Passage("p1", "d", "", "dog")])
