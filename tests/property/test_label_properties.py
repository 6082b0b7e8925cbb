import json
import string

from hypothesis import given
from hypothesis import strategies as st

from agentic_r.artifacts.fingerprint import fingerprint_text
from agentic_r.config import SelectionConfig
from agentic_r.labels.cache import CachedChat
from agentic_r.labels.parse import parse_scores, parse_sub_answers
from agentic_r.labels.rule_judge import RuleBasedJudge, new_term
from agentic_r.labels.selection import LabelledQuery, select_instances, shuffle_labels
from agentic_r.labels.terms import contains, words
from agentic_r.types import (
    Candidate,
    CandidateList,
    Passage,
    RelevanceRequest,
    Reply,
    SubAnswer,
    UtilityLabel,
)

NOISE = st.text(alphabet=string.ascii_letters + " \n{}[]\"'`:,.0123456789", max_size=60)
VALUES = st.lists(st.integers(min_value=0, max_value=100), min_size=1, max_size=20)


@given(reply=st.one_of(st.text(max_size=80), NOISE), count=st.integers(1, 5))
def test_any_reply_is_read_whole_or_not_at_all(reply, count):
    parsed = parse_scores(reply, count=count)
    assert parsed.raw == reply
    assert (parsed.values is not None) == (parsed.state == "ok")
    if parsed.values is not None:
        assert len(parsed.values) == count
        assert all(0 <= value <= 100 for value in parsed.values)


@given(values=VALUES, as_text=st.booleans(), before=st.sampled_from(["", "Sure! ", "```json\n", "{maybe 3}\n"]))
def test_whole_replies_give_back_their_values(values, as_text, before):
    written = [str(value) for value in values] if as_text else values
    reply = before + json.dumps({"reason": "the set {1} fits", "scores": written})
    assert parse_scores(reply, count=len(values)).values == tuple(values)


@given(values=VALUES, data=st.data())
def test_a_reply_cut_anywhere_never_gives_other_values(values, data):
    whole = "I see {1}. " + json.dumps({"draft": {"scores": [1] * len(values)}, "scores": values})
    cut = whole[: data.draw(st.integers(0, len(whole) - 1))]
    assert parse_scores(cut, count=len(values)).values is None


@given(
    texts=st.lists(st.text(alphabet=string.ascii_letters + " .,{}", max_size=20), max_size=5), count=st.integers(1, 5)
)
def test_sub_answers_come_back_in_number_or_not_at_all(texts, count):
    parsed = parse_sub_answers("\n".join(f"<sub-answer>{text}</sub-answer>" for text in texts), count=count)
    if parsed.texts is not None:
        assert len(parsed.texts) == count == len(texts)
        for given_text, read in zip(texts, parsed.texts, strict=True):
            assert read is None or read == " ".join(given_text.split())


TEXTS = ["Text A.", "text  a.", "Text B.", "TEXT B.", "Text C.", "Text D."]
PART = st.sampled_from([None, 0.0, 0.3, 0.6, 0.9])


@st.composite
def labelled_queries(draw):
    size = draw(st.integers(0, 20))
    ids = [f"p{number}" for number in range(size)]
    texts = {key: draw(st.sampled_from([*TEXTS, f"own {key}"])) for key in ids}
    labels = tuple(UtilityLabel(key, draw(PART), draw(st.sampled_from([None, 0.0, 1.0]))) for key in ids)
    query = CandidateList(
        "q/0/0", "q", 0, 0, "query", tuple(Candidate(key, rank, 0.0) for rank, key in enumerate(ids, start=1))
    )
    passages = {key: Passage(key, key, "", text) for key, text in texts.items()}
    return LabelledQuery(query, "question", labels), passages


@given(
    made=labelled_queries(),
    seed=st.integers(0, 3),
    rule=st.sampled_from(["paper", "strict"]),
    size=st.integers(2, 16),
    shuffle=st.booleans(),
)
def test_every_query_gives_sound_instances_or_one_reason(made, seed, rule, size, shuffle):
    item, passages = made
    settings = SelectionConfig(rule=rule, passages_per_query=size, shuffle_labels=shuffle)
    selection = select_instances([item], passages=passages, settings=settings, seed=seed)
    assert selection == select_instances([item], passages=passages, settings=settings, seed=seed)
    if shuffle:
        (item,) = shuffle_labels([item], seed=seed)
    labels = {label.passage_id: label for label in item.labels}
    assert bool(selection.instances) != bool(selection.skipped)
    assert len(selection.instances) <= 3
    for instance in selection.instances:
        positive = labels[instance.positive]
        assert positive.correctness == 1
        assert positive.relevance is not None
        assert positive.relevance >= 0.6
        assert 1 <= len(instance.negatives) == len(set(instance.negatives)) <= size - 1
        assert instance.positive not in {*instance.negatives, *instance.other_positives}
        assert not set(instance.negatives) & set(instance.other_positives)
        for key in instance.negatives:
            assert labels[key].relevance is not None
            assert labels[key].correctness is not None
        if rule == "paper":
            assert len(instance.negatives) == size - 1
        else:
            _assert_strict(instance, labels, passages)


def _assert_strict(instance, labels, passages):
    texts = {fingerprint_text(passages[key].text) for key, label in labels.items() if label.correctness == 1}
    for key in instance.negatives:
        assert labels[key].correctness == 0
        assert fingerprint_text(passages[key].text) not in texts


WORDS = st.lists(st.sampled_from(["Brado", "Kulim", "tarin", "melu", "teacher", "of", "the", "45"]), max_size=8)
LINES = WORDS.map(" ".join)


@given(text=WORDS, start=st.integers(0, 8), stop=st.integers(0, 8))
def test_every_stretch_of_a_text_is_contained_in_it(text, start, stop):
    part = text[start:stop]
    assert contains(text, part) == bool(part)


@given(query=LINES, texts=st.lists(LINES, max_size=4), answer=st.one_of(st.none(), LINES))
def test_rule_relevance_is_a_value_and_needs_a_held_sub_answer_to_reach_the_threshold(query, texts, answer):
    passages = tuple(Passage(f"p{number}", "d", "", text) for number, text in enumerate(texts))
    listed = CandidateList("q/0/0", "q", 0, 0, query, ())
    (made,) = RuleBasedJudge().relevance([RelevanceRequest(listed, SubAnswer("q/0/0", answer, "rule"), passages)])
    for passage, item in zip(passages, made, strict=True):
        assert item.value is not None
        assert 0 <= item.value <= 1
        if item.value >= 0.6:
            assert answer is not None
            assert set(words(answer)) - {"the"} <= set(words(passage.text))


@given(following=LINES, question=LINES, asked=LINES, evidence=st.lists(LINES, max_size=3))
def test_a_new_term_is_written_in_the_query_and_shown_by_the_evidence(following, question, asked, evidence):
    passages = [Passage(str(number), "d", "", text) for number, text in enumerate(evidence)]
    term = new_term(following, question=question, asked=[asked], evidence=passages)
    if term is not None:
        assert term in following
        assert any(contains(words(text), words(term)) for text in evidence)
        assert not set(words(term)) <= set(words(question) + words(asked))


class Echo:
    name = "echo"

    def __init__(self):
        self.asked = []

    def complete(self, prompts, *, arrived=None):
        self.asked += prompts
        replies = [Reply(prompt + "!") for prompt in prompts]
        for number, reply in enumerate(replies):
            if arrived is not None:
                arrived(number, reply)
        return replies


@given(prompts=st.lists(st.text(max_size=10), min_size=1, max_size=4, unique=True), data=st.data())
def test_replies_survive_a_kill_at_any_byte(tmp_path_factory, prompts, data):
    path = tmp_path_factory.mktemp("kept") / "replies.jsonl"
    CachedChat(Echo(), path).complete(prompts)
    content = path.read_bytes()
    kept = content[: data.draw(st.integers(0, len(content)))]
    path.write_bytes(kept)
    echo = Echo()
    assert [reply.text for reply in CachedChat(echo, path).complete(prompts)] == [prompt + "!" for prompt in prompts]
    assert echo.asked == prompts[kept.count(b"\n") :]
    assert path.read_bytes() == content
