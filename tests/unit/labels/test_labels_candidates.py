import pytest
from labels_fakes import FixedRetriever, answer, attempt, question, search

from agentic_r.labels.candidates import find_candidates
from agentic_r.types import Candidate, QueryText, ScoredPassage, SearchResult, Skipped

FOUND = SearchResult((ScoredPassage("a", 3.0), ScoredPassage("b", 2.0), ScoredPassage("c", 1.0)), "ok")
QUESTIONS = {"q1": question("The question?", "x"), "q2": question("Another?", "y", key="q2")}


def find(trajectories, retriever, path, k=2):
    return find_candidates(
        trajectories, QUESTIONS, retriever=retriever, k=k, output=path / "candidates.jsonl", progress=lambda *_: None
    )


def test_every_good_search_of_every_trajectory_gets_its_best_k(tmp_path):
    retriever = FixedRetriever({"one": FOUND, "two": FOUND})
    trajectories = [
        attempt(search("one", "a"), search("two", "b"), answer("x")),
        attempt(search("one", "a"), question_id="q2", sample=1),
    ]
    found = find(trajectories, retriever, tmp_path)
    assert [item.query_id for item in found.lists] == ["q1/0/0", "q1/0/1", "q2/1/0"]
    assert found.lists[0].candidates == (Candidate("a", 1, 3.0), Candidate("b", 2, 2.0))
    assert retriever.asked[1:] == [QueryText("two", "The question?", ("one",)), QueryText("one", "Another?")]
    assert [item.history for item in found.lists] == [(), ("one",), ()]
    assert found.skipped == ()


def test_searches_without_evidence_are_left_out_with_the_reason(tmp_path):
    empty, failed = SearchResult((), "empty"), SearchResult((), "failed", "timeout")
    retriever = FixedRetriever({"one": FOUND, "gone": empty, "down": failed})
    turns = [search("x", state="empty"), search("x", state="failed"), search("one"), search("gone"), search("down")]
    found = find([attempt(*turns, search("last", state="none"))], retriever, tmp_path)
    assert [item.query_id for item in found.lists] == ["q1/0/2"]
    assert found.skipped == (
        Skipped("q1/0/0", "the agent's search found nothing"),
        Skipped("q1/0/1", "the agent's search failed"),
        Skipped("q1/0/5", "the agent's search was not run (no turns left)"),
        Skipped("q1/0/3", "no candidates found"),
        Skipped("q1/0/4", "the search for candidates failed"),
    )


def test_held_out_questions_are_refused(tmp_path):
    held_out = {"q1": question("The question?", "x", split="heldout")}
    with pytest.raises(ValueError, match="q1 is held out"):
        find_candidates(
            [attempt(search("one"))],
            held_out,
            retriever=FixedRetriever({"one": FOUND}),
            k=2,
            output=tmp_path / "c.jsonl",
            progress=lambda *_: None,
        )
