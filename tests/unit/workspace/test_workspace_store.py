import stat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentic_r.errors import DataError, StaleError
from agentic_r.types import Document
from agentic_r.workspace.names import MAX_NAME_BYTES, file_name
from agentic_r.workspace.store import create_store, open_store

DOCUMENTS = [
    Document("d1", "Alan Turing", "one\r\ntwo\u2028still two\n"),
    Document("d2", "Alan Turing", "\ufeffÜ\x00\n\nlast"),
    Document("../d3", "", ""),
]


def test_a_file_holds_the_documents_bytes_and_nothing_else(tmp_path):
    store = create_store(tmp_path, DOCUMENTS)
    files = {store.name(document.id): document.text.encode() for document in DOCUMENTS}
    assert {path.name: path.read_bytes() for path in store.documents_folder.iterdir()} == files


def test_lone_surrogates_are_kept_in_the_file_and_do_not_stop_the_import(tmp_path):
    store = create_store(tmp_path, [Document("d", "\ud800", "a\ud800b")])
    (path,) = store.documents_folder.iterdir()
    assert path.read_bytes() == b"a\xed\xa0\x80b"
    assert store.lines("d") == ["a\ufffd\ufffd\ufffdb"]


def test_names_are_made_of_title_and_a_hash_of_the_id(tmp_path):
    store = create_store(tmp_path, DOCUMENTS)
    assert store.name("d1").startswith("Alan_Turing_")
    assert store.name("d1") != store.name("d2")
    assert store.name("../d3").startswith("d3_")
    assert file_name("Götz von Berlichingen / 2. Akt", key="x", extension=".txt").startswith(
        "Götz_von_Berlichingen_2_Akt_"
    )
    assert file_name("--//..", key="x", extension=".txt").startswith("untitled_")


@given(label=st.text(max_size=300), key=st.text(max_size=20), other=st.text(max_size=20))
def test_names_are_safe_short_and_differ_wherever_ids_differ(label, key, other):
    name = file_name(label, key=key, extension=".txt")
    assert len(name.encode()) <= MAX_NAME_BYTES
    assert not set(name) & set('/\\\0:*?"<>| \n')
    assert not name.startswith((".", "-"))
    assert (name.lower() == file_name(label, key=other, extension=".txt").lower()) == (key == other)


def test_a_long_title_is_cut_by_bytes_not_by_characters():
    name = file_name("字" * 300, key="x", extension=".txt")
    # 200 bytes - 17 for "_", 12 hash characters and ".txt" = 183 bytes = 61 characters of 3 bytes
    assert len(name.encode()) == 200
    assert name.count("字") == 61


def test_files_are_read_only(tmp_path):
    store = create_store(tmp_path, DOCUMENTS)
    assert {stat.S_IMODE(path.stat().st_mode) for path in store.documents_folder.iterdir()} == {0o444}


def test_a_killed_import_is_gone_on_with_and_ends_as_an_unbroken_one(tmp_path):
    def killed():
        yield DOCUMENTS[0]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        create_store(tmp_path / "a", killed())
    with pytest.raises(DataError, match="no finished document store"):
        open_store(tmp_path / "a")
    folder = tmp_path / "a" / "documents"
    (kept,) = folder.iterdir()
    before = kept.stat().st_ino
    (folder / "stranger.txt").write_text("of another corpus")
    half = folder / (create_store(tmp_path / "b", DOCUMENTS).name("d2") + ".part")
    half.write_text("half")
    half.chmod(0o444)
    resumed = create_store(tmp_path / "a", DOCUMENTS)
    assert kept.stat().st_ino == before
    assert resumed.fingerprint == open_store(tmp_path / "b").fingerprint
    assert sorted(path.name for path in folder.iterdir()) == sorted(entry.name for entry in resumed)
    assert (tmp_path / "a" / "map.jsonl").read_bytes() == (tmp_path / "b" / "map.jsonl").read_bytes()


def test_a_file_left_with_other_bytes_by_a_killed_import_is_written_again(tmp_path):
    name = create_store(tmp_path / "b", DOCUMENTS).name("d1")
    (tmp_path / "a" / "documents").mkdir(parents=True)
    size = len(DOCUMENTS[0].text.encode())
    (tmp_path / "a" / "documents" / name).write_bytes(b"x" * size)
    assert create_store(tmp_path / "a", DOCUMENTS).lines("d1") == ["one\r", "two\u2028still two"]


def test_a_file_that_a_power_cut_emptied_is_written_again(tmp_path):
    store = create_store(tmp_path, DOCUMENTS)
    path = store.documents_folder / store.name("d1")
    path.unlink()
    path.touch()
    assert create_store(tmp_path, DOCUMENTS).lines("d1") == ["one\r", "two\u2028still two"]


@pytest.mark.parametrize(
    "documents",
    [
        DOCUMENTS[:2],
        [*DOCUMENTS, Document("d4", "", "new")],
        [Document("d1", "Alan Turing", "changed"), *DOCUMENTS[1:]],
    ],
)
def test_a_finished_store_of_other_documents_is_refused(tmp_path, documents):
    create_store(tmp_path, DOCUMENTS)
    with pytest.raises(StaleError, match=r"delete it or use another name"):
        create_store(tmp_path, documents)
    assert len(open_store(tmp_path)) == 3


def test_an_id_that_occurs_twice_is_an_error_that_names_it(tmp_path):
    with pytest.raises(DataError, match="'d1'"):
        create_store(tmp_path, [DOCUMENTS[0], DOCUMENTS[0]])


def test_only_names_in_the_map_are_found_whatever_way_round_is_tried(tmp_path):
    store = create_store(tmp_path / "store", DOCUMENTS)
    name = store.name("d1")
    (tmp_path / "store" / "documents2").mkdir()
    (tmp_path / "store" / "documents2" / name).write_text("a sibling with a longer name")
    assert store.find(name) == "d1"
    assert store.find(f"./{name}") == "d1"
    for path in (
        f"../documents2/{name}",
        f"../documents/{name}",
        str(store.documents_folder / name),
        "../map.jsonl",
        "",
        ".",
    ):
        assert store.find(path) is None


def test_a_file_replaced_by_a_link_is_not_found(tmp_path):
    store = create_store(tmp_path / "store", DOCUMENTS)
    secret = tmp_path / "secret.txt"
    secret.write_text("gold")
    path = store.documents_folder / store.name("d1")
    path.unlink()
    path.symlink_to(secret)
    assert store.find(store.name("d1")) is None


def test_lines_end_at_line_feeds_only(tmp_path):
    store = create_store(tmp_path, DOCUMENTS)
    assert store.lines("d1") == ["one\r", "two\u2028still two"]
    assert store.lines("d2") == ["\ufeffÜ\x00", "", "last"]
    assert store.lines("../d3") == []
