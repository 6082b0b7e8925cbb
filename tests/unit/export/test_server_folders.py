"""Which folders are served, and which belong together."""

import json
import shutil

import pytest
from served_world import DOCUMENTS, PASSAGES, make_encoder, make_run, write_corpus

from agentic_r.errors import ConfigError, FingerprintError
from agentic_r.export.server.folders import ServedFolders, find_folders
from agentic_r.export.server.served import load_served


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("runs") / "mine", working=tmp_path_factory.mktemp("working"))


@pytest.fixture
def own(run, tmp_path):
    """A run of the test's own, to be changed."""
    return shutil.copytree(run, tmp_path / "own")


def test_a_run_has_all_and_its_last_finished_index_is_taken(own):
    whole = ServedFolders("own", own / "export/encoder", own / "iter-2/index/vectors", own / "corpus")
    assert find_folders(own) == whole
    for name in ("iter-10", "iter-x", "iter-0"):  # no finished index in these
        (own / name / "index" / "vectors").mkdir(parents=True)
    assert find_folders(own) == whole
    shutil.copytree(own / "iter-2" / "index", own / "iter-11" / "index")
    assert find_folders(own).index == own / "iter-11/index/vectors"


def test_an_earlier_iterations_index_does_not_stand_in_for_the_last_retrievers(own):
    for name in ("iter-1", "iter-3"):
        (own / name / "retriever" / "encoder").mkdir(parents=True)
    with pytest.raises(ConfigError, match=r"iter-3/index/vectors: index.json is not there"):
        find_folders(own)


def test_an_export_alone_serves_vectors_only_unless_index_and_corpus_are_given(run):
    for folder in (run / "export", run / "export" / "encoder"):
        assert find_folders(folder) == ServedFolders("mine", run / "export/encoder", None, None)
    index, corpus = run / "iter-2/index/vectors", run / "corpus"
    found = find_folders(run / "export", index=index, corpus=corpus, name="other")
    assert found == ServedFolders("other", run / "export/encoder", index, corpus)


def test_an_export_outside_a_run_is_called_as_its_folder(run, tmp_path):
    moved = shutil.copytree(run / "export" / "encoder", tmp_path / "bought")
    assert find_folders(moved) == ServedFolders("bought", moved, None, None)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"folder": "gone"}, "gone: no such folder; give a run's folder"),
        ({"folder": "corpus"}, "corpus: holds no exported encoder; finish the run first"),
        ({"folder": "export", "index": "iter-2/index/vectors"}, "--index without --corpus: an index holds ids"),
        ({"folder": "export", "corpus": "corpus"}, "--corpus without --index: an index holds ids"),
        (
            {"folder": ".", "index": "iter-2/index"},
            "iter-2/index: index.json is not there; give a finished dense index",
        ),
        ({"folder": ".", "corpus": "export"}, "export: passages.jsonl is not there; give a finished corpus"),
    ],
)
def test_a_wrong_folder_is_named_with_what_to_give(run, monkeypatch, arguments, says):
    monkeypatch.chdir(run)
    given = {key: run / value if value == "." else type(run)(value) for key, value in arguments.items()}
    with pytest.raises(ConfigError) as refused:
        find_folders(given.pop("folder"), **given)
    assert says in str(refused.value)


def test_the_export_encodes_as_the_encoder_that_was_trained(run, tmp_path):
    served = load_served(find_folders(run))
    assert served.fingerprint == make_encoder(tmp_path).fingerprint
    assert served.searched is not None
    assert list(served.searched.passages.values()) == list(PASSAGES)


@pytest.mark.parametrize(
    "change", [{"seed": 1}, {"query_prefix": "q: "}, {"max_passage_tokens": 40}, {"max_query_tokens": 16}]
)
def test_h7_an_index_of_another_encoder_is_refused_and_both_are_named(own, tmp_path, change):
    other = make_encoder(tmp_path, **change)
    other.save(own / "export" / "encoder")
    with pytest.raises(FingerprintError) as refused:
        load_served(find_folders(own))
    assert other.fingerprint in str(refused.value)
    assert json.loads((own / "iter-2/index/vectors/index.json").read_text())["encoder"] in str(refused.value)


def test_passages_of_another_corpus_are_refused(own):
    write_corpus(own / "corpus", DOCUMENTS, PASSAGES[:-1])
    with pytest.raises(FingerprintError, match=r"this index was built from corpus .* give the corpus"):
        load_served(find_folders(own))


def test_passages_changed_by_hand_are_refused(own):
    file = own / "corpus" / "passages.jsonl"
    file.write_text(file.read_text().replace("years old", "years young"))
    with pytest.raises(FingerprintError, match="changed by hand"):
        load_served(find_folders(own))


def test_another_type_of_weights_serves_the_same_index(run):
    served = load_served(find_folders(run), dtype="bfloat16")
    assert (served.dtype, served.fingerprint) == ("bfloat16", load_served(find_folders(run)).fingerprint)
