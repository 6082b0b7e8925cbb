"""A small load on a server: random sizes, cuts and malformed bodies (``server_load.py`` runs 10,000)."""

from served_world import make_run
from server_load import apply_load


def test_no_request_crashes_the_server_or_gets_a_wrong_vector_and_its_memory_stays(tmp_path):
    run = make_run(tmp_path / "runs" / "mine", working=tmp_path)
    found = apply_load(run, num_requests=400)
    assert found["mistakes"] == []
    assert (found["crashed"], found["answers_at_the_end"], found["exit_code"]) == (False, 200, 0)
    assert sum(found["outcomes"].values()) == 400
    assert {name.split()[0] for name in found["outcomes"]} == {
        "embeddings",
        "retrieve",
        "malformed",
        "cut",
        "left",
        "no",
    }
    megabytes = [size for done, size in found["memory_mb"] if done >= 100]
    assert max(megabytes) - megabytes[0] < 30
