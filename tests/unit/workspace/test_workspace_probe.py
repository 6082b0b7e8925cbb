import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentic_r.artifacts.records import from_json, to_json
from agentic_r.config import WorkspaceConfig
from agentic_r.errors import DataError, FingerprintError, ToolFailure
from agentic_r.types import Document, Evidence, QueryText, Question, RecordedQuery, ScoredDocument
from agentic_r.workspace.calls import ReadInput, RecallInput, ScanInput, SearchInput
from agentic_r.workspace.coverage import ToolCost, judge_trace
from agentic_r.workspace.measures import SystemRun, by_state, tool_costs, values
from agentic_r.workspace.probe import ScriptedProbe
from agentic_r.workspace.ripgrep import find_ripgrep
from agentic_r.workspace.run import Contender, run_probe
from agentic_r.workspace.scan import OrderedScanner
from agentic_r.workspace.scope import RememberedRanker, build_scope
from agentic_r.workspace.session import Session, Tools
from agentic_r.workspace.store import create_store
from agentic_r.workspace.trace import Trace, read_trace, trace_path

DOCUMENTS = [
    Document("marlow", "Marlow", "A town by the river.\n\nMarlow was founded by Ada Quill.\nIt is old.\n"),
    Document("quill", "Quill", "Ada Quill was born in Osterby.\nShe founded Marlow.\n"),
    Document("noise", "Noise", "Nothing here.\nMarlow is mentioned, founded or not.\n"),
    Document("other", "Other", "Osterby has a harbour.\n"),
]
QUESTION = Question(
    id="q/1",
    text="Where was the founder of Marlow born?",
    answers=("Osterby",),
    split="heldout",
    evidence=(
        Evidence("marlow", "Marlow was founded by Ada Quill."),
        Evidence("quill", "Ada Quill was born in Osterby."),
    ),
)
QUERIES = [RecordedQuery("r1", "q/1", "who founded Marlow"), RecordedQuery("r2", "q/1", "Ada Quill born")]
CONFIG = WorkspaceConfig(scope_documents=2)


class FakeRanker:
    """Ranks documents in one fixed order, whatever is asked."""

    def __init__(self, *order, fails=False):
        self.order = order
        self.fails = fails
        self.asked = []

    @property
    def fingerprint(self):
        return "fake " + " ".join(self.order)

    def rank_documents(self, query, *, k):
        self.asked.append(query)
        if self.fails:
            raise ToolFailure("the index is away")
        return [ScoredDocument(key, -float(place)) for place, key in enumerate(self.order)][:k]


class FakeSimilarity:
    """Texts are nearer the more of the query's words they hold."""

    fingerprint = "fake words"

    def __init__(self, *, fails=False):
        self.fails = fails
        self.asked = []

    def scores(self, query, passages):
        if self.fails:
            raise ToolFailure("the encoder is away")
        self.asked.append(query)
        words = set(query.query.lower().split())
        return [float(len(words & set(item.text.lower().replace(".", "").split()))) for item in passages]


@pytest.fixture
def store(tmp_path):
    return create_store(tmp_path / "store", DOCUMENTS)


@pytest.fixture
def probe(tmp_path, store):
    def run(
        rankers,
        *,
        system="rarg",
        similarity=None,
        questions=(QUESTION,),
        queries=QUERIES,
        config=CONFIG,
        progress=lambda done, total: None,
    ):
        return run_probe(
            tmp_path / "workspace",
            questions=questions,
            queries=queries,
            contenders=[Contender(system, name, ranker, similarity) for name, ranker in rankers.items()],
            store=store,
            config=config,
            progress=progress,
        )

    return run


def trace_of(tmp_path, retriever="good", question_id="q/1", system="rarg"):
    return read_trace(trace_path(tmp_path / "workspace", system=system, retriever=retriever, question_id=question_id))


def without_seconds(trace):
    return [{**to_json(call), "seconds": 0.0} for call in trace.calls]


def test_coverage_is_counted_at_each_stage(probe):
    good, half, bad = probe(
        {
            "good": FakeRanker("marlow", "quill", "noise"),
            "half": FakeRanker("noise", "marlow", "quill"),
            "bad": FakeRanker("noise", "other", "marlow"),
        }
    )
    expected = {"good": 1.0, "half": 0.5, "bad": 0.0}  # half: quill is third, behind a scope of 2
    for measure in ("scope@2", "scope@20", "imported", "matched", "read", "evidence"):
        found = values([good, half, bad], measure)
        assert {run.retriever: row["q/1"] for run, row in found.items()} == expected, measure
    assert values([half], "scope@1") == {SystemRun("rarg", "half"): {"q/1": 0.0}}  # noise is first
    assert values([good], "previewed") == {SystemRun("rarg", "good"): {"q/1": 0.0}}  # no system before RARG+ shows any
    assert half.coverage.ranks == (2, None)
    assert half.coverage.evidence[1] is None


def test_evidence_counts_within_a_budget_from_where_it_stands_in_the_output(probe, tmp_path):
    (outcome,) = probe({"good": FakeRanker("marlow", "quill")})
    calls = trace_of(tmp_path).calls
    # the first scan's first line shows Marlow's evidence: after the recall's output and that line
    until = len(calls[0].output) + calls[1].output.index("\n")
    assert outcome.coverage.evidence[0] == until
    run = SystemRun("rarg", "good")
    assert values([outcome], f"evidence@{until - 1}")[run]["q/1"] == 0.0
    assert values([outcome], f"evidence@{until}")[run]["q/1"] == 0.5


def test_costs_are_counted_by_tool(probe, tmp_path):
    (outcome,) = probe({"good": FakeRanker("marlow", "quill")})
    calls = trace_of(tmp_path).calls
    reads = [call for call in calls if call.input.tool == "read"]
    assert outcome.costs[2] == ToolCost(
        "read", 2, sum(len(call.output) for call in reads), sum(call.seconds for call in reads)
    )
    assert tool_costs([outcome])[SystemRun("rarg", "good")]["rg"]["calls"] == {"q/1": 2.0}


def test_every_tool_call_is_in_the_trace_with_what_it_was_asked_and_what_it_showed(probe, store, tmp_path):
    probe({"good": FakeRanker("marlow", "quill")})
    trace = trace_of(tmp_path)
    # Quill's two lines are in the first scan's output or read after it: nothing of them is read twice
    assert [call.input.tool for call in trace.calls] == ["embed_recall", "rg", "read", "read", "embed_recall", "rg"]
    assert trace.calls[0].input == RecallInput(1, "who founded Marlow", QUESTION.text, 2, 2000)
    scan = trace.calls[1]
    assert isinstance(scan.input, ScanInput)
    assert (scan.input.scope, scan.input.pattern, scan.input.flags) == (1, "founded|Marlow", ("-i",))
    marlow, quill = store.name("marlow"), store.name("quill")
    assert scan.output == (
        f"{marlow}:3: Marlow was founded by Ada Quill.\n{quill}:2: She founded Marlow.\n"
        "shown 2 of 2 matches, 2 of 2 documents scanned"
    )
    assert scan.documents == ("marlow", "quill")
    read = trace.calls[2]
    assert isinstance(read.input, ReadInput)
    assert (read.input.path, read.input.first_line, read.input.num_lines) == (marlow, 2, 8)
    assert trace.scopes[1].document_ids == ("marlow", "quill")
    assert trace.scopes[1].query == QueryText("Ada Quill born", QUESTION.text)
    assert trace.ripgrep == find_ripgrep().version


def test_a_trace_reads_back_to_the_same_values(probe, tmp_path):
    probe({"good": FakeRanker("marlow", "quill")})
    trace = trace_of(tmp_path)
    assert from_json(Trace, json.loads(json.dumps(to_json(trace)))) == trace


def test_two_retrievers_are_given_the_same_actions(probe, tmp_path):
    probe({"good": FakeRanker("marlow", "quill"), "turned": FakeRanker("quill", "marlow")})
    good, turned = trace_of(tmp_path, "good"), trace_of(tmp_path, "turned")
    scans = [[call.input.pattern for call in trace.calls if call.input.tool == "rg"] for trace in (good, turned)]
    assert scans[0] == scans[1]
    assert good.calls[1].documents == turned.calls[1].documents[::-1]


@pytest.mark.parametrize("system", ["rarg", "rise"])
def test_the_ranker_is_told_the_queries_sent_before(probe, tmp_path, system):
    queries = [QUERIES[0], RecordedQuery("r2", "q/1", "Ada Quill born", history=("who founded Marlow",))]
    ranker = FakeRanker("marlow", "quill")
    probe({"good": ranker}, queries=queries, system=system)
    assert [item.history for item in ranker.asked] == [(), ("who founded Marlow",)]


def test_order_decides_what_a_small_budget_shows(probe):
    # 250 - 20 for the recall's line, of that 0.6 for the scan: 138, of which 55 for its footer; one match fits
    config = WorkspaceConfig(scope_documents=4, max_output_characters=250, documents_read=0)
    first, last = probe(
        {
            "first": FakeRanker("marlow", "quill", "noise", "other"),
            "last": FakeRanker("other", "noise", "quill", "marlow"),
        },
        queries=QUERIES[:1],
        config=config,
    )
    assert first.coverage.scope_coverage == last.coverage.scope_coverage == 1.0
    assert first.coverage.evidence[0] is not None
    assert last.coverage.evidence == (None, None)


@settings(max_examples=40, deadline=None)
@given(
    budget=st.integers(100, 1500),
    num_queries=st.integers(1, 6),
    order=st.permutations([document.id for document in DOCUMENTS]),
    width=st.integers(20, 200),
    system=st.sampled_from(["rise", "rarg", "rarg+", "rarg++"]),
)
def test_all_output_of_a_question_stays_within_its_budget(tmp_path_factory, budget, num_queries, order, width, system):
    store = create_store(tmp_path_factory.getbasetemp() / "shared_store", DOCUMENTS)
    config = WorkspaceConfig(scope_documents=4, max_output_characters=budget, excerpt_characters=width)
    scanner = OrderedScanner(find_ripgrep(), store.documents_folder, timeout_s=30)
    session = Session(Tools(store, scanner, FakeRanker(*order), config, FakeSimilarity()), is_confined=system == "rise")
    queries = [QueryText("who founded Marlow Osterby")] * num_queries
    ScriptedProbe(store, config, system=system).run(session, queries)
    calls = session.calls
    assert not any(call.has_failed for call in calls)
    assert sum(len(call.output) for call in calls) <= budget
    for call in calls:
        for span in call.shown:
            assert 0 <= span.start <= span.end <= len(store.lines(span.document_id)[span.line - 1])


def test_a_query_without_words_to_scan_for_is_skipped_and_recorded(probe, tmp_path):
    (outcome,) = probe({"good": FakeRanker("marlow")}, queries=[RecordedQuery("r", "q/1", "who is it?")])
    assert outcome.state == "ok"
    scan = trace_of(tmp_path).calls[1]
    assert (scan.state, scan.cause) == ("skipped", "the query has no word to scan for")


def test_an_empty_ranking_is_an_empty_scope_not_a_failure(probe, tmp_path):
    (outcome,) = probe({"good": FakeRanker()})
    assert [call.state for call in trace_of(tmp_path).calls] == ["empty"] * 4
    assert (outcome.state, outcome.coverage.scope_coverage) == ("ok", 0.0)


def test_a_failed_ranker_is_listed_never_scored_and_asked_again(probe):
    ranker = FakeRanker("marlow", "quill", fails=True)
    (outcome,) = probe({"good": ranker})
    assert (outcome.state, outcome.coverage, outcome.cause) == ("failed", None, "embed_recall: the index is away")
    assert values([outcome], "scope@20") == {SystemRun("rarg", "good"): {}}
    assert by_state([outcome]) == {SystemRun("rarg", "good"): {"failed": ["q/1"]}}
    ranker.fails = False
    (again,) = probe({"good": ranker})
    assert (again.state, again.coverage.scope_coverage) == ("ok", 1.0)


def test_a_document_that_cannot_be_searched_makes_the_question_failed(probe, store):
    (store.documents_folder / store.name("marlow")).unlink()
    (outcome,) = probe({"good": FakeRanker("marlow", "quill")})
    assert (outcome.state, outcome.coverage) == ("failed", None)
    assert outcome.cause.startswith("rg: Marlow_")


def test_questions_without_queries_or_evidence_are_listed_with_their_reason(probe):
    silent = Question("silent", "?", ("x",), "heldout", evidence=QUESTION.evidence)
    bare = Question("bare", "?", ("x",), "heldout")
    outcomes = probe(
        {"good": FakeRanker("marlow")},
        questions=[silent, bare, QUESTION],
        queries=[*QUERIES, RecordedQuery("r3", "bare", "Marlow")],
    )
    assert by_state(outcomes) == {
        SystemRun("rarg", "good"): {"no_queries": ["silent"], "no_evidence": ["bare"], "ok": ["q/1"]}
    }
    assert list(values(outcomes, "read")[SystemRun("rarg", "good")]) == ["q/1"]


def test_finished_questions_are_kept_and_their_ranker_is_not_asked(probe, tmp_path):
    ranker = FakeRanker("marlow", "quill")
    first = probe({"good": ranker})
    path = trace_path(tmp_path / "workspace", system="rarg", retriever="good", question_id="q/1")
    before = path.stat().st_ino
    assert probe({"good": ranker}) == first
    assert path.stat().st_ino == before
    assert len(ranker.asked) == 2  # one for each query


def test_a_killed_run_does_only_what_is_missing_and_ends_as_an_unbroken_one(probe, tmp_path):
    questions = [Question(f"q{n}", "Where?", ("x",), "heldout", evidence=QUESTION.evidence) for n in range(3)]
    queries = [RecordedQuery(f"r{n}", f"q{n}", "who founded Marlow") for n in range(3)]
    ranker = FakeRanker("marlow", "quill")
    unbroken = probe({"good": ranker}, questions=questions, queries=queries)
    before = without_seconds(trace_of(tmp_path, question_id="q1"))
    trace_path(tmp_path / "workspace", system="rarg", retriever="good", question_id="q1").unlink()
    resumed = probe({"good": ranker}, questions=questions, queries=queries)
    assert len(ranker.asked) == 3 + 1
    assert [outcome.coverage for outcome in resumed] == [outcome.coverage for outcome in unbroken]
    assert without_seconds(trace_of(tmp_path, question_id="q1")) == before


@pytest.mark.parametrize(
    "change",
    [
        {"config": WorkspaceConfig(scope_documents=1)},
        {"queries": QUERIES[:1]},
        {"queries": [QUERIES[0], RecordedQuery("r2", "q/1", "Ada Quill born", history=("who founded Marlow",))]},
        {"rankers": {"good": FakeRanker("quill", "marlow")}},
    ],
)
def test_a_trace_made_from_other_inputs_is_not_taken_for_finished_work(probe, tmp_path, change):
    probe({"good": FakeRanker("marlow", "quill")})
    before = trace_of(tmp_path)
    probe(**{"rankers": {"good": FakeRanker("marlow", "quill")}, **change})
    assert trace_of(tmp_path).identity != before.identity


def test_a_damaged_trace_is_made_again(probe, tmp_path):
    first = probe({"good": FakeRanker("marlow", "quill")})
    path = trace_path(tmp_path / "workspace", system="rarg", retriever="good", question_id="q/1")
    path.write_text('{"calls": [')
    assert probe({"good": FakeRanker("marlow", "quill")})[0].coverage == first[0].coverage


def test_the_store_holds_documents_only_and_traces_hold_no_gold(probe, store, tmp_path):
    question = Question("q/1", "Where?", ("GOLD-ANSWER",), "heldout", evidence=(Evidence("marlow", "GOLD-TEXT"),))
    probe({"good": FakeRanker("marlow")}, questions=[question])
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or b"GOLD" not in path.read_bytes()
    assert {path.suffix for path in store.documents_folder.iterdir()} == {".txt"}


def test_gold_that_no_retriever_could_reach_is_named(probe):
    evidence = (Evidence("absent", "x"), Evidence("marlow", "not in it"), Evidence("marlow", "It is old."))
    question = Question("q/1", "Where?", ("x",), "heldout", evidence=evidence)
    (outcome,) = probe({"good": FakeRanker("marlow")}, questions=[question])
    assert (outcome.coverage.not_stored, outcome.coverage.not_located) == (("absent",), (1,))
    assert outcome.coverage.scope_coverage == 0.5
    assert outcome.coverage.evidence_shown() == pytest.approx(1 / 3)


def test_evidence_over_several_lines_and_whole_documents_count_when_all_of_it_was_shown(probe):
    evidence = (
        Evidence("marlow", "Marlow was founded by Ada Quill.\nIt is old."),
        Evidence("marlow"),  # its first line is not read
        Evidence("quill"),
    )
    question = Question("q/1", "Where?", ("x",), "heldout", evidence=evidence)
    (outcome,) = probe({"good": FakeRanker("marlow", "quill")}, questions=[question])
    assert [at is not None for at in outcome.coverage.evidence] == [True, False, True]


def test_a_document_of_the_index_that_the_store_lacks_refuses_to_run(probe):
    with pytest.raises(FingerprintError, match="'stranger' is in the index but not in the document store"):
        probe({"good": FakeRanker("stranger")})


def test_a_ranking_longer_than_asked_or_with_a_document_twice_is_a_callers_bug(store):
    class Broken(FakeRanker):
        def rank_documents(self, query, *, k):
            return super().rank_documents(query, k=99)

    for ranker in (Broken("marlow", "quill", "noise"), Broken("marlow", "marlow")):
        with pytest.raises(ValueError, match="where 2 were asked for"):
            build_scope(ranker, QueryText("x"), k=2, store=store)


def test_queries_of_other_questions_and_repeated_questions_are_errors(probe):
    with pytest.raises(DataError, match="'r9' belongs to no question here"):
        probe({"good": FakeRanker("marlow")}, queries=[RecordedQuery("r9", "q9", "x")])
    with pytest.raises(DataError, match="occurs twice"):
        probe({"good": FakeRanker("marlow")}, questions=[QUESTION, QUESTION])


def test_question_ids_of_any_kind_have_a_trace_of_their_own(tmp_path):
    ids = ["a/b", "a b", "A/B", "../x", "", "x" * 400, "字"]
    paths = {
        trace_path(tmp_path, system="rarg", retriever="r", question_id=key).relative_to(tmp_path).as_posix().lower()
        for key in ids
    }
    assert len(paths) == len(ids)
    assert all(path.startswith("rarg/r/") and path.count("/") == 2 for path in paths)
    with pytest.raises(ValueError, match="cannot be the name of a folder"):
        trace_path(tmp_path, system="rarg", retriever="../r", question_id="q")


def test_progress_counts_questions_of_all_retrievers(probe):
    seen = []
    probe(
        {"a": FakeRanker("marlow"), "b": FakeRanker("quill")}, progress=lambda done, total: seen.append((done, total))
    )
    assert seen == [(0, 2), (1, 2), (2, 2)]


def test_a_trace_is_judged_by_its_content_alone(probe, store, tmp_path):
    (outcome,) = probe({"good": FakeRanker("marlow", "quill")})
    assert judge_trace(trace_of(tmp_path), QUESTION, store) == outcome


def test_a_ranker_is_asked_once_for_what_several_systems_share(probe):
    ranker = FakeRanker("marlow", "quill")
    remembered = RememberedRanker(ranker)
    probe({"good": remembered})
    probe({"good": remembered}, system="rarg+", similarity=FakeSimilarity())
    assert len(ranker.asked) == 2  # one for each query


def test_rise_imports_previews_and_scans_the_workspace_in_the_order_of_names(probe, store, tmp_path):
    (outcome,) = probe({"good": FakeRanker("quill", "noise", "marlow")}, system="rise")
    calls = trace_of(tmp_path, system="rise").calls
    assert [call.input.tool for call in calls][:2] == ["search", "rg"]
    assert calls[0].input == SearchInput(1, ("who founded Marlow",), QUESTION.text, 1000, 10, 800)
    assert calls[0].documents == ("quill", "noise", "marlow")
    assert calls[0].output.splitlines()[:2] == [
        "3 documents added, 3 in the workspace",
        '"who founded Marlow": 3 found, 3 new, 0 already there',
    ]
    assert calls[0].output.splitlines()[2] == f"1. {store.name('quill')}:2: She founded Marlow."
    assert calls[1].input.scope == 0
    assert calls[1].documents == ("marlow", "noise", "quill")
    second = next(call for call in calls[1:] if call.input.tool == "search")
    assert second.output.startswith("0 documents added, 3 in the workspace\n")
    assert "(already there)" in second.output
    assert outcome.coverage.previewed == 1.0


def test_rarg_plus_opens_with_the_nearest_paragraphs_and_counts_them_as_previewed(probe, store, tmp_path):
    (outcome,) = probe({"good": FakeRanker("marlow", "quill")}, system="rarg+", similarity=FakeSimilarity())
    opening = trace_of(tmp_path, system="rarg+").calls[0]
    assert opening.output == (
        "scope 1: 2 documents\n"
        f"{store.name('marlow')}, lines 1-4:\nA town by the river.\nMarlow was founded by Ada Quill.\nIt is old.\n"
        f"{store.name('quill')}, lines 1-2:\nAda Quill was born in Osterby.\nShe founded Marlow.\n"
        "shown 2 of 2 paragraphs, 2 of 2 documents read"
    )
    assert outcome.coverage.previewed == 1.0
    # the evidence is in the opening: its paragraph ends where the second one's head begins
    assert outcome.coverage.evidence[0] == opening.output.index(f"\n{store.name('quill')}")


def test_rarg_plus_plus_shows_the_nearest_matches_of_its_pool(probe, tmp_path):
    config = WorkspaceConfig(scope_documents=4, max_matches=1, documents_read=0, opening={"paragraphs": 1})
    similarity = FakeSimilarity()
    ranker = FakeRanker("noise", "marlow", "quill")
    probe({"good": ranker}, system="rarg++", similarity=similarity, queries=QUERIES[1:], config=config)
    plain = FakeRanker("noise", "marlow", "quill")
    probe({"good": plain}, system="rarg+", similarity=similarity, queries=QUERIES[1:], config=config)
    reranked, first = (trace_of(tmp_path, system=system).calls[1] for system in ("rarg++", "rarg+"))
    # "Ada Quill born" matches one line of marlow (two words) and one of quill (three)
    assert first.output.splitlines()[0].endswith("Marlow was founded by Ada Quill.")
    assert reranked.output.splitlines()[0].endswith("Ada Quill was born in Osterby.")
    assert reranked.output.splitlines()[1] == "shown 1 of 2 matches, 3 of 3 documents scanned"
    assert reranked.documents == ("quill",)


def test_an_encoder_that_fails_makes_the_question_failed(probe):
    (outcome,) = probe({"good": FakeRanker("marlow")}, system="rarg+", similarity=FakeSimilarity(fails=True))
    assert (outcome.state, outcome.cause) == ("failed", "embed_recall: the encoder is away")


def test_what_is_reported_of_traces_does_not_make_them_stale(probe, tmp_path):
    probe({"good": FakeRanker("marlow", "quill")})
    before = trace_of(tmp_path).identity
    probe({"good": FakeRanker("marlow", "quill")}, config=WorkspaceConfig(scope_documents=2, budgets=(7,)))
    assert trace_of(tmp_path).identity == before
