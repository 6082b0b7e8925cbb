"""The stages that measure: the frozen queries, retrieval, answers, export; and the summary and report."""

import json
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from agentic_r.agent.rollout import Start, sent_before
from agentic_r.artifacts.fingerprint import generator_seed
from agentic_r.artifacts.jsonl import write_json, write_jsonl
from agentic_r.artifacts.record_log import map_in_chunks
from agentic_r.artifacts.records import read_records, write_records
from agentic_r.artifacts.stage import Manifest, StageFolder, read_manifest
from agentic_r.config import RunConfig
from agentic_r.corpus.gold import gold_kind
from agentic_r.evaluation.answers import evaluate_answers
from agentic_r.evaluation.coverage import coverage_comparisons, coverage_left_out, workspace_coverage
from agentic_r.evaluation.curves import AGENT_CURVES, RETRIEVER_CURVES, TrainingLog, dev_curves, training_charts
from agentic_r.evaluation.examples import EXAMPLE_CHOICE, choose_examples, readable_attempt
from agentic_r.evaluation.intervals import Bootstrap
from agentic_r.evaluation.label_report import label_report
from agentic_r.evaluation.measurements import (
    CrossMeasurement,
    Measurements,
    PerQuestion,
    RunCost,
    StageMeasurement,
    better_format,
    build_summary,
    correctness_rule,
)
from agentic_r.evaluation.recorded import judge_queries
from agentic_r.evaluation.report import write_report
from agentic_r.evaluation.report_parts import Example, ReportInput, stage_record
from agentic_r.evaluation.retrieval import evaluate_retriever
from agentic_r.evaluation.summary import LeftOut, Summary, write_summary
from agentic_r.export.checkpoint import export_checkpoint
from agentic_r.labels.audit import Audit
from agentic_r.loop.exporting import parity_texts, retriever_folder, run_card
from agentic_r.loop.layout import BASE_WITH_QUESTION, StagePlan, agent_names, retriever_names
from agentic_r.loop.learning import count_trajectories
from agentic_r.loop.parts import Parts
from agentic_r.types import RecordedQuery, Relevance, Trajectory
from agentic_r.workspace.coverage import ProbeOutcome
from agentic_r.workspace.measures import SCOPE_COVERAGE, SystemRun, measure_names, values

__all__ = ["answer_heldout", "export_retriever", "finish_run", "measure_retrieval", "record_queries"]

Report = Callable[[int, int], None]

_CHUNK = 128
_EXAMPLES = 8
_PARITY_TEXTS = 32


def record_queries(parts: Parts, plan: StagePlan, stage: StageFolder, report: Report) -> None:
    """The frozen query set: what the warm-started agent asks about held-out questions, before anything is trained.

    Sampled at temperature 1 (our choice), so that the set holds its good and its lazy queries alike.
    """
    rollout = parts.rollout(parts.agent("warm"), "base")
    seed = generator_seed(parts.config.seed, "recorded queries")
    trajectories = map_in_chunks(
        [Start(item) for item in parts.heldout_questions],
        lambda number, chunk: rollout.run(chunk, temperature=1.0, seed=generator_seed(seed, number)),
        kind=Trajectory,
        output=stage.path / "trajectories.jsonl",
        chunk_size=_CHUNK,
        progress=report,
    )
    queries = [
        RecordedQuery(f"{item.question_id}/{number}", item.question_id, query, history=sent[:number])
        for item in trajectories
        for sent in (tuple(dict.fromkeys(sent_before(item.turns))),)
        for number, query in enumerate(sent)
    ]
    write_records(stage.path / "queries.jsonl", queries)
    asked = {query.question_id for query in queries}
    stage.counts.update(queries=len(queries), questions=len(asked))
    if len(asked) < len(trajectories):
        stage.skipped["held-out questions for which the agent sent no query"] = len(trajectories) - len(asked)


def measure_retrieval(parts: Parts, plan: StagePlan, stage: StageFolder, report: Report) -> None:
    """One retriever on the frozen queries."""
    config = parts.config.evaluation
    judged = judge_queries(
        parts.recorded_queries,
        parts.heldout_questions,
        passages=parts.corpus.passages,
        answer_bearing=parts.answer_bearing,
    )
    outcome = evaluate_retriever(
        parts.retriever(plan.pair[1]),
        judged,
        measures=config.measures,
        k=max(10, parts.config.labels.candidates),
        drop_query_id_hits=config.drop_query_id_hits,
        progress=report,
    )
    write_json(stage.path / "per_question.json", outcome.per_question)
    write_json(stage.path / "left_out.json", _left_out(plan.pair[1], outcome.not_measured, judged.not_judged))
    stage.counts.update(queries=len(judged.queries), empty=len(outcome.empty))
    if outcome.failed:
        stage.failed["search failed"] = len(outcome.failed)
    if judged.not_judged:
        stage.skipped["query of a question without gold or answer-bearing passage"] = len(judged.not_judged)
    for measure, group in outcome.per_question.items():
        if group:
            stage.metrics[measure] = sum(group.values()) / len(group)


def _left_out(stage: str, failed: Sequence[str], not_judged: Sequence[str]) -> list[dict[str, object]]:
    found = [("a search failed", failed), ("query of a question without gold or answer-bearing passage", not_judged)]
    return [LeftOut(stage=stage, reason=reason, ids=tuple(ids)).model_dump() for reason, ids in found if ids]


def answer_heldout(parts: Parts, plan: StagePlan, stage: StageFolder, report: Report) -> None:
    """One agent with one retriever on the held-out questions, greedily."""
    agent, retriever = plan.pair
    rollout = parts.rollout(parts.agent(agent), retriever)
    trajectories = map_in_chunks(
        [Start(item) for item in parts.heldout_questions],
        lambda number, chunk: rollout.run(chunk, temperature=0.0, seed=generator_seed(parts.config.seed, number)),
        kind=Trajectory,
        output=stage.path / "trajectories.jsonl",
        chunk_size=_CHUNK,
        progress=report,
    )
    count_trajectories(stage, trajectories)


def export_retriever(parts: Parts, plan: StagePlan, stage: StageFolder, report: Report) -> None:
    """The last retriever as a folder that others load, with its proof."""
    summary = make_summary(parts, RunCost(0.0, None))
    parity = export_checkpoint(
        retriever_folder(parts, plan.iteration),
        stage.path / "encoder",
        card=run_card(parts, summary),
        texts=parity_texts(parts, _PARITY_TEXTS),
        config=parts.config.export,
        progress=report,
    )
    for item in parity.artefacts:
        stage.metrics[f"max_difference {item.name}"] = (
            float("nan") if item.max_difference is None else item.max_difference
        )
        stage.counts["kinds_of_text"] = len(item.kinds)


@dataclass(frozen=True, slots=True)
class _Found:
    """What the measuring stages left: answers by (agent, retriever), retrieval by retriever, the probe's outcomes."""

    answers: Mapping[tuple[str, str], list[Trajectory]]
    retrieval: Mapping[str, PerQuestion]
    probe: Sequence[ProbeOutcome]
    left_out: tuple[LeftOut, ...]


def _collect(parts: Parts) -> _Found:
    answers, retrieval, left_out = {}, {}, []
    for retriever in retriever_names(parts.config):
        folder = parts.root / "evaluation" / retriever
        retrieval[retriever] = json.loads((folder / "per_question.json").read_bytes())
        left_out += [LeftOut.model_validate(item) for item in json.loads((folder / "left_out.json").read_bytes())]
        for agent in agent_names(parts.config):
            path = parts.root / "cross" / agent / retriever / "trajectories.jsonl"
            answers[agent, retriever] = list(read_records(path, Trajectory))
    probe = list(read_records(parts.root / "workspace" / "outcomes.jsonl", ProbeOutcome))
    return _Found(answers, retrieval, probe, (*left_out, *coverage_left_out(probe)))


def make_summary(parts: Parts, cost: RunCost) -> Summary:
    """The run's summary from what its measuring stages left."""
    config = parts.config
    found = _collect(parts)
    scope = values(found.probe, SCOPE_COVERAGE)
    formats = {"query": found.retrieval["base"], "question [SEP] query": found.retrieval[BASE_WITH_QUESTION]}
    base = "base" if better_format(formats) == "query" else BASE_WITH_QUESTION
    sources = [("bm25", "warm", "bm25"), ("base", "warm", base)]
    sources += [(f"iter-{i}", f"iter-{i}", f"iter-{i}") for i in range(1, config.iterations + 1)]
    rows = []
    for stage, agent, retriever in sources:
        answers = evaluate_answers(found.answers[agent, retriever])
        per_question = {**found.retrieval[retriever], **answers.per_question()}
        rows.append(
            StageMeasurement(stage, {**per_question, "scope_coverage": scope.get(SystemRun("rarg", retriever), {})})
        )
    cross = []
    for (agent, retriever), trajectories in found.answers.items():
        if retriever not in (BASE_WITH_QUESTION, "base") or retriever == base:
            shown = "base" if retriever == base else retriever
            cross.append(CrossMeasurement(agent, shown, evaluate_answers(trajectories).per_question()))
    return build_summary(
        Measurements(
            rows=rows,
            cross=sorted(cross, key=lambda cell: agent_names(config).index(cell.agent)),
            correctness=correctness_rule(config.agent.reward, correct_f1=config.agent.correct_f1),
            gold=gold_kind(parts.heldout_questions),
            answer_mode=config.agent.answer_mode,
            query_id_hits="dropped" if config.evaluation.drop_query_id_hits else "kept",
            base_formats=formats,
            left_out=found.left_out,
        ),
        cost=cost,
        bootstrap=Bootstrap(seed=config.seed, samples=config.evaluation.bootstrap_samples),
    )


def finish_run(parts: Parts, stages: Sequence[StagePlan]) -> Summary:
    """Write ``summary.json``, ``metrics.jsonl`` and ``report.html`` from finished stages."""
    manifests = {plan.name: manifest for plan in stages if (manifest := read_manifest(plan.folder(parts.root)))}
    memory = [
        int(item.metrics["peak_memory_bytes"]) for item in manifests.values() if "peak_memory_bytes" in item.metrics
    ]
    cost = RunCost(sum(item.seconds for item in manifests.values()), max(memory, default=None))
    summary = make_summary(parts, cost)
    write_summary(parts.root / "summary.json", summary)
    write_jsonl(parts.root / "metrics.jsonl", ({"stage": name, **item.metrics} for name, item in manifests.items()))
    write_report(parts.root / "report.html", _report(parts, summary, manifests))
    return summary


def _report(parts: Parts, summary: Summary, manifests: Mapping[str, Manifest]) -> ReportInput:
    config = parts.config
    found = _collect(parts)
    numbers = range(1, config.iterations + 1)
    last = manifests[f"iter-{config.iterations}/retriever"]
    return ReportInput(
        name=config.name,
        summary=summary,
        stages=tuple(stage_record(name, item) for name, item in manifests.items()),
        agent_charts=training_charts(
            [TrainingLog(i, parts.root / f"iter-{i}" / "agent" / "training" / "metrics.jsonl") for i in numbers],
            AGENT_CURVES,
        ),
        retriever_charts=training_charts(
            [TrainingLog(i, parts.root / f"iter-{i}" / "retriever" / "metrics.jsonl") for i in numbers],
            RETRIEVER_CURVES,
        )
        + training_charts(
            [TrainingLog(i, parts.root / f"iter-{i}" / "retriever" / "dev.jsonl") for i in numbers],
            dev_curves(config.contrastive.dev_measures if config.contrastive.dev_share else ()),
        ),
        labels=tuple(
            label_report(
                i,
                next(read_records(parts.root / f"iter-{i}" / "instances" / "audit.jsonl", Audit)),
                [item.value for item in _relevances(parts.root, i) if item.value is not None],
            )
            for i in numbers
        ),
        coverage=workspace_coverage(
            found.probe, measures=measure_names(config.workspace), bootstrap=Bootstrap(seed=config.seed)
        ),
        coverage_comparisons=coverage_comparisons(
            found.probe, measures=measure_names(config.workspace), bootstrap=Bootstrap(seed=config.seed)
        ),
        examples=_examples(parts, found, config),
        example_choice=EXAMPLE_CHOICE,
        configuration=yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False),
        packages=last.packages,
        python=last.python,
        machine=platform.platform(),
    )


def _relevances(root: Path, iteration: int) -> list[Relevance]:
    return list(read_records(root / f"iter-{iteration}" / "relevance" / "relevance.jsonl", Relevance))


def _examples(parts: Parts, found: _Found, config: RunConfig) -> tuple[Example, ...]:
    last = f"iter-{config.iterations}"
    pairs = {"warm-started agent, base retriever": ("warm", "base"), f"agent and retriever of {last}": (last, last)}
    attempts = {label: {item.question_id: item for item in found.answers[pair]} for label, pair in pairs.items()}
    before, after = [{key: item.correct for key, item in group.items()} for group in attempts.values()]
    chosen = choose_examples(before, after, count=_EXAMPLES, seed=config.seed)
    return tuple(
        Example(
            question=parts.questions[key].text,
            answers=parts.questions[key].answers,
            attempts=tuple(
                readable_attempt(
                    group[key], label=label, passages=parts.corpus.passages, gold=parts.questions[key].gold_passages
                )
                for label, group in attempts.items()
            ),
        )
        for key in chosen
    )
