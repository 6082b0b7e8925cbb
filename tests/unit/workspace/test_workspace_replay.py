import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentic_r.artifacts.records import to_json
from agentic_r.config import WorkspaceConfig
from agentic_r.types import Document, Evidence, QueryText, Question, ScoredDocument
from agentic_r.workspace.calls import ReadInput, RecallInput, ScanInput, SearchInput
from agentic_r.workspace.coverage import judge_trace
from agentic_r.workspace.replay import Change, RecordedRanker, ReorderedRanker, replay_trace
from agentic_r.workspace.ripgrep import find_ripgrep
from agentic_r.workspace.scan import OrderedScanner
from agentic_r.workspace.session import Session, Tools
from agentic_r.workspace.store import create_store
from agentic_r.workspace.trace import RankedScope, Trace

DOCUMENTS = [Document(f"d{n}", f"T{n}", f"needle {n} here\nand {n} others\n") for n in range(6)]
QUESTION = Question("q", "Where?", ("x",), "heldout", evidence=(Evidence("d4", "needle 4 here"),))
CONFIG = WorkspaceConfig(max_output_characters=1000)


class Ranked:
    def __init__(self, *order):
        self.order = order
        self.fingerprint = " ".join(order)

    def rank_documents(self, query, *, k):
        return [ScoredDocument(key, -float(place)) for place, key in enumerate(self.order)][:k]


@pytest.fixture
def tools(tmp_path):
    store = create_store(tmp_path / "store", DOCUMENTS)
    scanner = OrderedScanner(find_ripgrep(), store.documents_folder, timeout_s=30)
    return Tools(store, scanner, Ranked("d0", "d1", "d2", "d3", "d4", "d5"), CONFIG)


def record(tools, *inputs, system="rarg"):
    session = Session(tools, is_confined=system == "rise")
    for made in inputs:
        session.run(made)
    return Trace(
        system=system,
        retriever="base",
        question_id="q",
        identity="i",
        ranker=tools.ranker.fingerprint,
        similarity="",
        ripgrep="ripgrep 15",
        max_output_characters=CONFIG.max_output_characters,
        scopes=tuple(RankedScope.of(scope) for scope in session.scopes),
        calls=session.calls,
    )


RECALL = RecallInput(1, "needle", "Where?", 6, 100)
SCAN = ScanInput(1, "needle", (), 30, 8, 150)


def evidence_at(trace, tools):
    return judge_trace(trace, QUESTION, tools.store).coverage.evidence[0]


def without_seconds(trace):
    return [{**to_json(call), "seconds": 0.0} for call in trace.calls]


def test_a_replay_with_nothing_changed_gives_the_same_calls(tools):
    trace = record(tools, RECALL, SCAN)
    again = replay_trace(trace, tools, change=Change("base"))
    assert without_seconds(again) == without_seconds(trace)
    kept = replay_trace(trace, dataclasses.replace(tools, ranker=RecordedRanker(trace)), change=Change("base"))
    assert without_seconds(kept) == without_seconds(trace)
    assert kept.ranker == trace.ranker


def test_another_retriever_shows_other_evidence_within_the_same_budget(tools):
    # 150 characters hold the footer and two lines "T0_<12 characters>.txt:1: needle 0 here" of 36
    trace = record(tools, RECALL, SCAN)
    assert evidence_at(trace, tools) is None
    better = replay_trace(
        trace, dataclasses.replace(tools, ranker=Ranked("d4", "d0")), change=Change("better", budget=None)
    )
    assert evidence_at(better, tools) is not None
    assert (better.retriever, better.calls[1].input) == ("better", SCAN)


def test_a_larger_budget_scales_every_call(tools):
    trace = record(tools, RECALL, SCAN)
    larger = replay_trace(trace, tools, change=Change("base", budget=3000))
    assert [call.input.max_characters for call in larger.calls] == [300, 450]
    assert evidence_at(larger, tools) is not None
    assert larger.max_output_characters == 3000


class Skewed:
    """Many documents for one query, none for another."""

    fingerprint = "skewed"

    def rank_documents(self, query, *, k):
        return [ScoredDocument(f"d{n}", -float(n)) for n in range(6)][:k] if "all" in query.query else []


@pytest.fixture(scope="module")
def shared_tools(tmp_path_factory):
    store = create_store(tmp_path_factory.mktemp("shared") / "store", DOCUMENTS)
    scanner = OrderedScanner(find_ripgrep(), store.documents_folder, timeout_s=30)
    return Tools(store, scanner, Skewed(), CONFIG)


INPUTS = st.one_of(
    st.builds(lambda n: RecallInput(1, "all", "", 6, n), st.integers(0, 600)),
    st.builds(lambda n: ScanInput(1, "needle", (), 30, 8, n), st.integers(0, 600)),
    st.builds(lambda n: SearchInput(1, ("all", "none"), "", 6, 2, n), st.integers(0, 600)),
    st.builds(lambda n: ReadInput("T0", 1, 2, n), st.integers(0, 600)),
)


@settings(max_examples=40, deadline=None)
@given(inputs=st.lists(INPUTS, min_size=1, max_size=6), budget=st.one_of(st.none(), st.integers(100, 3000)))
def test_all_output_of_a_replay_stays_within_its_budget(shared_tools, inputs, budget):
    # recorded where the retriever found nothing, what one call left went to the next: the shares add up to more
    trace = record(shared_tools, *inputs)
    again = replay_trace(trace, shared_tools, change=Change("base", budget=budget))
    assert sum(len(call.output) for call in again.calls) <= (budget or CONFIG.max_output_characters)
    for old, new in zip(trace.calls, again.calls, strict=True):
        share = old.input.max_characters * again.max_output_characters // trace.max_output_characters
        assert new.input.max_characters <= share


def test_a_ranking_that_was_not_recorded_is_a_failed_call(tools):
    trace = record(tools, RECALL)
    session = Session(dataclasses.replace(tools, ranker=RecordedRanker(trace)), is_confined=False)
    call = session.run(dataclasses.replace(RECALL, query="another"))
    assert (call.state, call.cause) == ("failed", "this ranking was not recorded")


def test_a_replay_names_the_ripgrep_that_ran(tools):
    trace = record(tools, RECALL, SCAN)
    again = replay_trace(trace, tools, change=Change("base"))
    assert (trace.ripgrep, again.ripgrep) == ("ripgrep 15", find_ripgrep().version)


def test_order_alone_can_be_changed(tools):
    names = {item.id: tools.store.name(item.id) for item in DOCUMENTS}
    turned = Ranked("d5", "d4", "d3", "d2", "d1", "d0")
    by_name = ReorderedRanker(turned, order="name", name=names.__getitem__, seed=0)
    assert [item.document_id for item in by_name.rank_documents(QueryText("x"), k=3)] == ["d3", "d4", "d5"]
    drawn = [
        [
            item.document_id
            for item in ReorderedRanker(turned, order="random", name=str, seed=seed).rank_documents(q, k=6)
        ]
        for seed, q in ((0, QueryText("x")), (0, QueryText("x")), (1, QueryText("x")), (0, QueryText("y")))
    ]
    assert drawn[0] == drawn[1]
    assert len({tuple(item) for item in drawn}) == 3
    assert all(sorted(item) == sorted(turned.order) for item in drawn)
    prints = {
        ReorderedRanker(turned, order=order, name=str, seed=0).fingerprint for order in ("name", "random", "ranked")
    }
    assert len(prints) == 3
    assert turned.fingerprint in prints


def test_a_read_that_the_new_workspace_does_not_allow_shows_nothing_and_is_no_failure(tools):
    search = SearchInput(1, ("needle",), "Where?", 5, 0, 300)
    read = ReadInput(tools.store.name("d4"), 1, 8, 300)
    trace = record(tools, search, read, system="rise")
    assert trace.calls[1].state == "ok"
    smaller = replay_trace(trace, dataclasses.replace(tools, ranker=Ranked("d0")), change=Change("small"))
    assert (smaller.calls[1].state, smaller.failure) == ("skipped", "")
    assert "is not a document of this workspace" in smaller.calls[1].cause


def test_calls_that_no_session_can_answer_are_refused_with_a_sentence(tools):
    session = Session(tools, is_confined=False)
    assert session.run(SCAN).cause == "there is no scope 1; recall one first."
    assert session.run(SearchInput(1, (), "", 5, 0, 300)).cause == "search needs at least one query."
    opening = session.run(dataclasses.replace(RECALL, num_opened=2, num_paragraphs=2))
    assert (opening.state, opening.cause) == (
        "refused",
        "opening paragraphs need an encoder, and this retriever has none.",
    )
    assert session.run(dataclasses.replace(SCAN, pool=100)).state == "failed"
    assert all(call.has_failed for call in session.calls)


class Longest:
    """Longer texts are nearer (``TextSimilarity``)."""

    fingerprint = "longest"

    def scores(self, query, passages):
        return [float(len(item.text)) for item in passages]


@pytest.mark.parametrize("flags", [("-C1",), ("-l",), ("-c",)])
def test_what_is_not_reranked_is_found_as_without_a_pool(tools, flags):
    session = Session(dataclasses.replace(tools, similarity=Longest()), is_confined=False)
    session.run(RECALL)
    plain = dataclasses.replace(SCAN, flags=flags, max_matches=2, max_characters=1000)
    pooled = session.run(dataclasses.replace(plain, pool=500))
    assert pooled.output == session.run(plain).output
    assert pooled.output.splitlines()[-1].startswith("shown 2 of at least 3 matches")


def test_a_pooled_scan_of_an_empty_workspace_is_empty(tools):
    session = Session(dataclasses.replace(tools, similarity=Longest()), is_confined=True)
    call = session.run(dataclasses.replace(SCAN, scope=0, pool=100))
    assert (call.state, call.cause) == ("empty", "")


def test_search_shares_its_room_between_sub_queries_and_counts_each(tools):
    session = Session(tools, is_confined=True)
    call = session.run(SearchInput(1, ("needle", "others"), "Where?", 3, 2, 1000))
    lines = call.output.splitlines()
    assert lines[0] == "3 documents added, 3 in the workspace"
    assert [line for line in lines if line.startswith('"')] == [
        '"needle": 3 found, 3 new, 0 already there',
        '"others": 3 found, 0 new, 3 already there',
    ]
    assert len([line for line in lines if line[0].isdigit() and line[1] == "."]) == 4
    assert [scope.number for scope in session.scopes] == [1, 2]
    assert call.documents == ("d0", "d1")
    # "others" is previewed by the second line of a document, and its place in the output is where it stands
    span = call.shown[2]
    assert (span.document_id, span.line) == ("d0", 2)
    assert call.output[: span.until].endswith("and 0 others")


def test_a_capped_workspace_says_what_it_refused(tools):
    config = CONFIG.model_copy(update={"search": CONFIG.search.model_copy(update={"max_members": 2})})
    session = Session(dataclasses.replace(tools, config=config), is_confined=True)
    call = session.run(SearchInput(1, ("needle",), "", 5, 0, 300))
    assert call.output.splitlines()[0] == "2 documents added, 2 in the workspace, 3 refused: the workspace is full"
