"""Index files for search engines: their form, what is left out, resuming, and the encoder they belong to."""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import faiss
import numpy as np
import pytest
from pyarrow import parquet
from tiny_export import PASSAGES, SETTINGS

from agentic_r.config import IndexConfig
from agentic_r.encoder.bi_encoder import BiEncoder
from agentic_r.errors import ConfigError, DataError, FingerprintError, StaleError
from agentic_r.export.engines.source import EncodedPassages, IndexedPassages, read_passages
from agentic_r.export.engines.write import EncoderFacts, IndexWish, engine_kind, export_index
from agentic_r.index.dense import StoredVectors, build_dense_index
from agentic_r.types import Passage

FACTS = EncoderFacts(SETTINGS, fingerprint="fedcba9876543210", dimension=4)
MANY = [Passage(f"p{n}", f"d{n // 2}", f"Title {n}", f'Text {n}\twith "signs"\nin it \\ 川') for n in range(5)]


class Known:
    """Given passages and vectors; counts how often vectors are asked for."""

    def __init__(self, passages: Sequence[Passage], vectors: np.ndarray) -> None:
        self._passages, self._vectors, self.asked = passages, vectors, 0

    def passages(self) -> Iterator[Passage]:
        return iter(self._passages)

    def vectors(self, start: int, passages: Sequence[Passage]) -> np.ndarray:
        self.asked += 1
        return self._vectors[start : start + len(passages)]


def unit_vectors(number: int, dimension: int = 4) -> np.ndarray:
    found = np.random.default_rng(0).normal(size=(number, dimension)).astype(np.float32)
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def write(folder: Path, kind, source=None, **wish):
    source = source or Known(MANY, unit_vectors(len(MANY)))
    file = folder.parent / "passages.jsonl"
    file.write_text("the passages")
    wish = IndexWish(kind=kind, **{"name": "passages", "part_passages": 2, **wish})
    return export_index(folder, source, encoder=FACTS, passages_file=file, wish=wish, progress=lambda done, total: None)


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_parquet_holds_ids_texts_and_vectors_in_parts(tmp_path):
    stage = write(tmp_path / "out", "parquet")
    assert stage.counts == {"passages": 5, "written": 5, "parts": 3}
    tables = [parquet.read_table(path) for path in sorted((tmp_path / "out").glob("*.parquet"))]
    assert [table.num_rows for table in tables] == [2, 2, 1]
    assert [row for table in tables for row in table["text"].to_pylist()] == [item.text for item in MANY]
    found = np.array([row for table in tables for row in table["embedding"].to_pylist()], dtype=np.float32)
    np.testing.assert_array_equal(found, unit_vectors(5))
    assert json.loads((tmp_path / "out" / "encoder.json").read_text())["query_prefix"] == "query: "


def test_faiss_rows_are_named_by_ids(tmp_path):
    write(tmp_path / "out", "faiss")
    index = faiss.read_index(str(tmp_path / "out" / "index.faiss"))
    ids = [line["id"] for line in lines(tmp_path / "out" / "ids.jsonl")]
    _, rows = index.search(unit_vectors(5), 1)
    assert [ids[row] for (row,) in rows] == ["p0", "p1", "p2", "p3", "p4"]


@pytest.mark.parametrize("kind", ["elasticsearch", "opensearch"])
def test_bulk_files_are_pairs_of_an_action_and_a_document_that_the_mapping_knows(tmp_path, kind):
    write(tmp_path / "out", kind)
    raw = (tmp_path / "out" / "part-00000.ndjson").read_bytes()
    assert raw.endswith(b"\n")
    action, document, *_ = lines(tmp_path / "out" / "part-00000.ndjson")
    assert action == {"index": {"_id": "p0"}}
    mapping = json.loads((tmp_path / "out" / "mapping.json").read_text())
    properties = mapping["mappings"]["properties"]
    assert set(document) == set(properties)  # the mapping is strict
    np.testing.assert_array_equal(np.array(document["embedding"], np.float32), unit_vectors(5)[0])
    if kind == "elasticsearch":
        assert (properties["embedding"]["dims"], properties["embedding"]["similarity"]) == (4, "dot_product")
    else:
        assert mapping["settings"] == {"index": {"knn": True}}
        assert (properties["embedding"]["dimension"], properties["embedding"]["type"]) == (4, "knn_vector")
        assert properties["embedding"]["method"]["space_type"] == "innerproduct"
    assert mapping["mappings"]["_meta"]["passage_prefix"] == "passage: "
    assert '"prefix_strings"' in (tmp_path / "out" / "README.md").read_text() or kind == "opensearch"


def test_elasticsearchs_own_client_reads_the_mapping_and_writes_the_same_actions(tmp_path):
    client = pytest.importorskip("elasticsearch")
    dsl = pytest.importorskip("elasticsearch.dsl")
    helpers = pytest.importorskip("elasticsearch.helpers")
    write(tmp_path / "out", "elasticsearch")
    found = json.loads((tmp_path / "out" / "mapping.json").read_text())["mappings"]["properties"]["embedding"]
    parameters = {key: value for key, value in found.items() if key != "type"}
    assert dsl.DenseVector(**parameters).to_dict() == found
    action, document = lines(tmp_path / "out" / "part-00000.ndjson")[:2]
    assert helpers.expand_action({"_op_type": "index", "_id": "p0", **document}) == (action, document)
    assert client.__versionstr__


def test_vespas_feed_and_schema_agree(tmp_path):
    write(tmp_path / "out", "vespa")
    document = lines(tmp_path / "out" / "part-00000.jsonl")[0]
    assert document["put"] == "id:agentic_r:passage::p0"
    schema = (tmp_path / "out" / "application" / "schemas" / "passage.sd").read_text()
    assert set(document["fields"]) == set(re.findall(r"field (\w+) type", schema))
    assert schema.count("tensor<float>(x[4])") == 2
    assert schema.count("{") == schema.count("}")
    assert "distance-metric: prenormalized-angular" in schema
    assert '<document type="passage" mode="index"/>' in (tmp_path / "out/application/services.xml").read_text()


def test_qdrants_own_models_take_collection_and_points(tmp_path):
    models = pytest.importorskip("qdrant_client.models")
    write(tmp_path / "out", "qdrant")
    collection = json.loads((tmp_path / "out" / "collection.json").read_text())
    vectors = models.CreateCollection.model_validate(collection).vectors
    assert (vectors.size, vectors.distance) == (4, models.Distance.DOT)
    points = models.PointsList.model_validate_json((tmp_path / "out" / "part-00000.json").read_bytes()).points
    assert [point.payload["id"] for point in points] == ["p0", "p1"]
    query = json.loads((tmp_path / "out" / "query.json").read_text())
    assert models.QueryRequest.model_validate({**query, "query": [0.0] * 4}).limit == 10


def test_a_text_for_copy_is_escaped_and_comes_back(tmp_path):
    write(tmp_path / "out", "pgvector")
    cells = (tmp_path / "out" / "part-00000.copy").read_text(encoding="utf-8").splitlines()[0].split("\t")
    assert cells[3] == 'Text 0\\twith "signs"\\nin it \\\\ 川'
    np.testing.assert_array_equal(np.array(json.loads(cells[4]), np.float32), unit_vectors(5)[0])
    assert "embedding vector(4)" in (tmp_path / "out" / "schema.sql").read_text()


def test_more_dimensions_than_pgvector_indexes_are_indexed_as_halves(tmp_path):
    facts = EncoderFacts(SETTINGS, fingerprint="f", dimension=2048)
    file = tmp_path / "passages.jsonl"
    file.write_text("")
    source = Known(MANY[:1], unit_vectors(1, 2048))
    wish = IndexWish(kind="pgvector", name="passages")
    export_index(
        tmp_path / "out", source, encoder=facts, passages_file=file, wish=wish, progress=lambda done, total: None
    )
    assert "halfvec(2048)) halfvec_ip_ops" in (tmp_path / "out" / "index.sql").read_text()
    assert "embedding::halfvec(2048) <#>" in (tmp_path / "out" / "query.sql").read_text()


def test_a_table_may_be_named_by_a_word_of_sql(tmp_path):
    write(tmp_path / "out", "pgvector", name="select")
    for name in ("schema.sql", "index.sql", "load.sql", "query.sql"):
        text = (tmp_path / "out" / name).read_text()
        assert '"select"' in text
        assert not re.search(r'(?<!")\bselect\b', text)


def test_more_dimensions_than_pgvector_indexes_at_all_are_refused_with_the_option_that_helps(tmp_path):
    facts = EncoderFacts(SETTINGS, fingerprint="f", dimension=4096)
    file = tmp_path / "passages.jsonl"
    file.write_text("")
    wish = IndexWish(kind="pgvector", name="passages")
    with pytest.raises(ConfigError, match=r"at most 4000 dimensions.*have 4096; cut them with --dimension 4000"):
        export_index(
            tmp_path / "out", Known([], unit_vectors(0)), encoder=facts, passages_file=file, wish=wish, progress=print
        )
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("kind", "passage", "reason"),
    [
        ("pgvector", Passage("n", "d", "", "a\0b"), "the character U+0000"),
        ("vespa", Passage("n", "d", "", "a\x07b"), "a control character"),
        ("elasticsearch", Passage("", "d", "", "a"), "an empty id"),
        ("opensearch", Passage("", "d", "", "a"), "an empty id"),
        ("vespa", Passage("", "d", "", "a"), "an empty id"),
        ("elasticsearch", Passage("川" * 171, "d", "", "a"), "id of more than 512 bytes"),
    ],
)
def test_what_an_engine_cannot_take_is_left_out_by_name(tmp_path, kind, passage, reason):
    stage = write(tmp_path / "out", kind, Known([MANY[0], passage], unit_vectors(2)))
    assert stage.skipped == {reason: 1}
    assert stage.counts == {"passages": 2, "written": 1, "parts": 1}
    assert lines(tmp_path / "out" / "skipped.jsonl") == [{"id": passage.id, "reason": reason}]


def test_zero_vectors_are_left_out_by_name(tmp_path):
    vectors = unit_vectors(5)
    vectors[3] = 0
    vectors[4, 0] = np.nan
    stage = write(tmp_path / "out", "qdrant", Known(MANY, vectors))
    assert stage.skipped == {"a zero vector": 1, "a vector that is not finite": 1}
    assert [line["id"] for line in lines(tmp_path / "out" / "skipped.jsonl")] == ["p3", "p4"]
    assert not list((tmp_path / "out").glob("left-out-*"))


def test_shortened_vectors_have_norm_1_again(tmp_path):
    write(tmp_path / "out", "parquet", dimension=2)
    table = parquet.read_table(tmp_path / "out" / "part-00000.parquet")
    found = np.array(table["embedding"].to_pylist(), dtype=np.float32)
    expected = unit_vectors(5)[:2, :2]
    np.testing.assert_allclose(found, expected / np.linalg.norm(expected, axis=1, keepdims=True), rtol=1e-6)
    with pytest.raises(ConfigError, match="--dimension 4: not shorter than the encoder's 4"):
        write(tmp_path / "other", "parquet", dimension=4)


def test_a_kill_while_notes_are_removed_loses_no_count(tmp_path, monkeypatch):
    vectors = unit_vectors(5)
    vectors[0] = vectors[4] = 0
    unlink, removed = Path.unlink, []

    def killed(path: Path, *, missing_ok: bool = False) -> None:
        if path.name.startswith("left-out-") and removed:
            raise KeyboardInterrupt
        removed.append(path)
        unlink(path, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", killed)
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / "out", "qdrant", Known(MANY, vectors))
    monkeypatch.setattr(Path, "unlink", unlink)
    stage = write(tmp_path / "out", "qdrant", Known(MANY, vectors))
    assert (stage.skipped, stage.counts["written"]) == ({"a zero vector": 2}, 3)
    assert not list((tmp_path / "out").glob("left-out-*"))


def test_a_killed_export_keeps_its_parts_and_ends_with_the_same_bytes(tmp_path):
    vectors = unit_vectors(5)
    vectors[0] = 0

    class Killed(Known):
        def vectors(self, start: int, passages: Sequence[Passage]) -> np.ndarray:
            if start == 4:
                raise KeyboardInterrupt
            return super().vectors(start, passages)

    write(tmp_path / "whole", "qdrant", Known(MANY, vectors))
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / "out", "qdrant", Killed(MANY, vectors))
    source = Known(MANY, vectors)
    stage = write(tmp_path / "out", "qdrant", source)
    assert source.asked == 1  # the last part alone
    assert stage.skipped == {"a zero vector": 1}
    names = sorted(path.name for path in (tmp_path / "whole").iterdir())
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == names
    for name in (name for name in names if name != "manifest.json"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    again = Known(MANY, vectors)
    write(tmp_path / "out", "qdrant", again)
    assert again.asked == 0


@pytest.mark.parametrize("damage", [lambda file: file.unlink(), lambda file: file.write_bytes(b"short")])
def test_a_finished_export_that_lost_a_part_is_not_called_whole(tmp_path, damage):
    write(tmp_path / "out", "vespa")
    write(tmp_path / "out", "vespa")
    damage(tmp_path / "out" / "part-00001.jsonl")
    with pytest.raises(StaleError, match=r"part-00001\.jsonl is missing or not as it was written; delete the folder"):
        write(tmp_path / "out", "vespa")


def test_a_vector_of_another_norm_is_a_damaged_index_and_not_exported(tmp_path):
    vectors = unit_vectors(5)
    vectors[3] *= 700
    with pytest.raises(DataError, match="a vector of passages 'p2' to 'p3' has not norm 1: the index is damaged"):
        write(tmp_path / "out", "parquet", Known(MANY, vectors))


def test_another_wish_does_not_overwrite_a_finished_export(tmp_path):
    write(tmp_path / "out", "qdrant")
    with pytest.raises(StaleError, match="setting kind was 'qdrant', is now 'vespa'"):
        write(tmp_path / "out", "vespa")


@pytest.mark.parametrize("name", ["Passages", "a-b", "1a", "x; DROP TABLE x", ""])
def test_a_name_that_some_engine_would_refuse_is_refused(tmp_path, name):
    with pytest.raises(ConfigError, match="expected small letters"):
        write(tmp_path / "out", "pgvector", name=name)


def test_an_unknown_engine_names_those_there_are():
    with pytest.raises(ConfigError, match=r"--kind milvus: .*parquet, faiss, elasticsearch"):
        engine_kind("milvus")


def test_passages_without_title_and_document_are_documents_of_their_own(tmp_path):
    path = tmp_path / "passages.jsonl"
    path.write_text('{"id": "7", "text": "a"}\n{"id": "8", "title": "T", "document_id": "d", "text": "b"}\n')
    assert list(read_passages(path)) == [Passage("7", "7", "", "a"), Passage("8", "d", "T", "b")]
    path.write_text('{"id": "7", "text": "a"}\n{"id": "7", "text": "b"}\n')
    with pytest.raises(DataError, match="record 2: the id '7' stands twice"):
        list(read_passages(path))
    path.write_text('{"id": 7, "text": "a"}\n')
    with pytest.raises(DataError, match="field 'id'"):
        list(read_passages(path))


def test_h7_vectors_of_another_encoder_are_refused_and_the_indexs_own_are_exported(trained, tmp_path):
    encoder = BiEncoder.load(trained)
    passages = list(PASSAGES.values())
    index = tmp_path / "vectors"
    config = IndexConfig(shard_passages=3, batch_size=2)
    build_dense_index(
        index, encoder, passages, corpus_fingerprint="c", config=config, progress=lambda done, total: None
    )
    with pytest.raises(FingerprintError, match=r"was built by encoder .*, but the encoder given is another"):
        StoredVectors(index, encoder_fingerprint="another")
    stored = StoredVectors(index, encoder_fingerprint=encoder.fingerprint)
    expected = encoder.encode_passages(passages)[1:4]
    np.testing.assert_allclose(stored.read(1, 4), expected, atol=1e-6)  # over two shards, in other batches

    file = tmp_path / "passages.jsonl"
    file.write_text("".join(json.dumps({"id": item.id, "text": item.text}) + "\n" for item in passages))
    np.testing.assert_array_equal(IndexedPassages(file, stored).vectors(0, passages), stored.read(0, 4))
    with pytest.raises(FingerprintError, match="passages 1 to 4 are not those of the index"):
        IndexedPassages(file, stored).vectors(0, passages[::-1])
    np.testing.assert_allclose(EncodedPassages(file, encoder).vectors(0, passages), stored.read(0, 4), atol=1e-6)
