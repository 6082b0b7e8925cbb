"""The stages that make and train: corpus, retrievers and their indexes, agents, labels."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

from agentic_r.agent.demonstrations import demonstration_trajectories
from agentic_r.agent.rollout import Start
from agentic_r.artifacts.fingerprint import generator_seed
from agentic_r.artifacts.jsonl import write_json
from agentic_r.artifacts.record_log import map_in_chunks
from agentic_r.artifacts.records import read_records, write_records
from agentic_r.artifacts.stage import StageFolder
from agentic_r.config import Bm25Config, FilesData, TinyWorldData
from agentic_r.contrastive.trainer import TrainingSummary, train_retriever
from agentic_r.corpus.build import build_corpus
from agentic_r.corpus.demonstrations import (
    locate_evidence,
    own_files,
    read_demonstrations,
    read_own_questions,
    write_demonstrations,
)
from agentic_r.corpus.gold import resolve_gold
from agentic_r.corpus.questions import read_questions
from agentic_r.corpus.readers import place_documents, read_documents
from agentic_r.corpus.report import ReadingReport
from agentic_r.corpus.store import Corpus, load_corpus
from agentic_r.encoder.bi_encoder import BiEncoder
from agentic_r.encoder.build import build_encoder
from agentic_r.errors import DataError
from agentic_r.index.bm25 import build_bm25_index
from agentic_r.index.dense import build_dense_index
from agentic_r.index.retriever import Bm25Retriever
from agentic_r.labels.audit import audit
from agentic_r.labels.candidates import find_candidates, usable
from agentic_r.labels.correctness import correctness_of, count_continuations, run_correctness
from agentic_r.labels.judge import build_judge, count_states, run_relevance, run_sub_answers, sub_answer_requests
from agentic_r.labels.selection import join_labels, select_instances
from agentic_r.loop.layout import StagePlan, retriever_name
from agentic_r.loop.parts import Parts, save_model
from agentic_r.ppo.trainer import train_agent
from agentic_r.ppo.warm_start import warm_start
from agentic_r.protocols import Retriever
from agentic_r.types import (
    CandidateList,
    Continuation,
    Demonstration,
    Question,
    Relevance,
    SubAnswer,
    TrainingInstance,
    Trajectory,
)
from agentic_r.world.build import build_world
from agentic_r.world.questions import ask_questions, demonstrate

Report = Callable[[int, int], None]

_ROLLOUT_CHUNK = 128  # attempts between two lines of the log
_DEMONSTRATION_CORPUS = "demonstration_corpus"


def make_corpus(parts: Parts, plan: StagePlan, stage: StageFolder, report: Report) -> None:
    """Documents, passages, questions with their gold, demonstrations."""
    config = parts.config
    reading = ReadingReport(broken_lines=config.data.broken_lines if isinstance(config.data, FilesData) else "stop")
    demonstrations: list[Demonstration] = []
    policy: Literal["stop", "first"] = "stop"
    match config.data:
        case TinyWorldData() as data:
            world = build_world(config.seed, num_documents=data.documents)
            asked = ask_questions(world, num_train=data.train_questions, num_heldout=data.heldout_questions)
            questions = [item.question for item in asked]
            demonstrations = demonstrate(world, asked, count=data.demonstrations)
            placed = place_documents(world.documents, report=reading, origin="tiny world")
        case FilesData() as data:
            found = read_questions(data)
            questions = [*found.train, *found.heldout]
            write_json(stage.path / "questions.report.json", found.to_json())
            own = own_files(data)
            if own is not None:
                demonstrations = _make_demonstration_corpus(parts, own, stage, heldout=found.heldout)
            elif data.demonstrations is not None:
                demonstrations = list(read_demonstrations(data.demonstrations, found).demonstrations)
            placed = read_documents(data, report=reading)
            policy = data.conflicting_ids
    build_corpus(stage, placed, passages=config.passages, report=reading, conflicting_ids=policy, progress=report)
    corpus = load_corpus(stage.path)
    resolved = resolve_gold(questions, corpus)
    if not (stage.path / _DEMONSTRATION_CORPUS).exists():
        locate_evidence(demonstrations, corpus)  # what cannot be found is said here, not hours later
    write_records(stage.path / "questions.jsonl", resolved)
    write_demonstrations(stage.path / "demonstrations.jsonl", demonstrations)
    stage.counts.update(
        train_questions=sum(item.split == "train" for item in resolved),
        heldout_questions=sum(item.split == "heldout" for item in resolved),
        questions_with_gold=sum(bool(item.gold_passages) for item in resolved),
        demonstrations=len(demonstrations),
    )


def _make_demonstration_corpus(
    parts: Parts, own: FilesData, stage: StageFolder, *, heldout: Sequence[Question]
) -> list[Demonstration]:
    """The documents and questions that demonstrations bring along, as a small corpus beside the run's."""
    assert own.demonstrations is not None, "own_files names all three"
    asked = read_own_questions(own, heldout=heldout)
    demonstrations = list(read_demonstrations(own.demonstrations, asked).demonstrations)
    inner = replace(stage, path=stage.path / _DEMONSTRATION_CORPUS, counts={}, skipped={}, failed={}, metrics={})
    inner.path.mkdir(exist_ok=True)
    reading = ReadingReport(broken_lines=own.broken_lines)
    build_corpus(
        inner,
        read_documents(own, report=reading),
        passages=parts.config.passages,
        report=reading,
        conflicting_ids=own.conflicting_ids,
        progress=lambda done, total: None,
    )
    corpus = load_corpus(inner.path)
    locate_evidence(demonstrations, corpus)
    write_records(inner.path / "questions.jsonl", resolve_gold(asked.train, corpus))
    write_json(inner.path / "questions.report.json", asked.to_json())
    stage.counts["demonstration_documents"] = inner.counts["documents"]
    stage.skipped.update({f"demonstration documents: {reason}": count for reason, count in inner.skipped.items()})
    return demonstrations


def make_bm25(parts: Parts, plan: StagePlan, stage: StageFolder, report: Report) -> None:
    """The lexical index."""
    build_bm25_index(
        stage.path / "index",
        list(parts.corpus.passages.values()),
        corpus_fingerprint=parts.corpus.fingerprint,
        config=parts.config.index.bm25,
        progress=report,
    )
    stage.counts["passages"] = len(parts.corpus.passages)


def make_base_retriever(parts: Parts, plan: StagePlan, stage: StageFolder, report: Report) -> None:
    """The encoder that every iteration starts from."""
    build_encoder(
        parts.config.encoder,
        passages=list(parts.corpus.passages.values()),
        folder=stage.path / "encoder",
        seed=generator_seed(parts.config.seed, "base retriever"),
        threads=parts.config.threads,
        progress=report,
    )


def make_index(parts: Parts, plan: StagePlan, stage: StageFolder, report: Report) -> None:
    """The dense index of an iteration's encoder."""
    index = build_dense_index(
        stage.path / "vectors",
        parts.encoder(plan.iteration),
        list(parts.corpus.passages.values()),
        corpus_fingerprint=parts.corpus.fingerprint,
        config=parts.config.index,
        progress=report,
    )
    stage.counts.update(passages=len(index), encoded=index.encoded)
    stage.metrics["memory_bytes"] = index.memory_bytes


def make_warm_agent(parts: Parts, plan: StagePlan, stage: StageFolder, report: Report) -> None:
    """The agent after supervised training on demonstrations."""
    config = parts.config
    model = parts.starting_model()
    require_demonstrations(parts)
    demonstrations = list(read_records(parts.root / "corpus" / "demonstrations.jsonl", Demonstration))
    limit = config.warm_start.max_demonstrations
    if limit is not None and len(demonstrations) > limit:
        stage.skipped["demonstrations beyond warm_start.max_demonstrations"] = len(demonstrations) - limit
        demonstrations = demonstrations[:limit]
    if demonstrations and config.warm_start.steps:
        ground = _demonstration_ground(parts, stage)
        trajectories = demonstration_trajectories(
            demonstrations,
            questions=ground.questions,
            locate=locate_evidence(demonstrations, ground.corpus),
            model=model,
            retriever=ground.retriever,
            passages=ground.corpus.passages,
            config=config.agent,
            seed=config.seed,
        )
        cut = sum(item.status != "answered" for item in trajectories)
        if cut:
            stage.skipped["demonstrations cut before their answer by agent.max_turns or agent.max_context_tokens"] = cut
        model.model.train()
        left_out = warm_start(
            model.model,
            model.tokenizer,
            trajectories,
            config.warm_start,
            folder=stage.path / "training",
            seed=generator_seed(config.seed, "warm start"),
            progress=report,
        )
        if left_out:
            stage.skipped["demonstrations whose search failed"] = left_out
    stage.counts["demonstrations"] = len(demonstrations)
    save_model(model, stage.path / "model")


@dataclass(frozen=True, slots=True)
class _Ground:
    """Where demonstrations take place."""

    corpus: Corpus
    questions: Mapping[str, Question]
    retriever: Retriever


def _demonstration_ground(parts: Parts, stage: StageFolder) -> _Ground:
    """The run's corpus with its base retriever, or the corpus that the demonstrations bring along with BM25 over it.

    A dense index of that corpus would cost as much as the run's own; BM25 serves, since what must be shown is put in
    anyway, and only the other results are the retriever's choice.
    """
    folder = parts.root / "corpus" / _DEMONSTRATION_CORPUS
    if not folder.exists():
        return _Ground(parts.corpus, parts.questions, parts.retriever("base"))
    corpus = load_corpus(folder)
    index = build_bm25_index(
        stage.path / "demonstration_index",
        list(corpus.passages.values()),
        corpus_fingerprint=corpus.fingerprint,
        config=Bm25Config(),
        progress=lambda done, total: None,
    )
    questions = {item.id: item for item in read_records(folder / "questions.jsonl", Question)}
    return _Ground(corpus, questions, Bm25Retriever(index))


def make_agent(parts: Parts, plan: StagePlan, stage: StageFolder, report: Report) -> None:
    """The agent of an iteration, by PPO against the retriever before it."""
    config = parts.config
    restart = "warm" if config.restart == "base" or plan.iteration == 1 else f"iter-{plan.iteration - 1}"
    folder = parts.agent_folder(restart)
    model = parts.new_model(folder)
    if config.ppo.steps:
        train_agent(
            rollout=parts.rollout(model, retriever_name(plan.iteration - 1)),
            policy=model.model,
            reference=parts.new_model(folder).model,
            questions=parts.train_questions,
            config=config.ppo,
            folder=stage.path / "training",
            seed=generator_seed(config.seed, plan.iteration, "agent"),
            progress=report,
        )
    save_model(model, stage.path / "model")
    stage.counts["steps"] = config.ppo.steps


def run_agent(parts: Parts, plan: StagePlan, stage: StageFolder, report: Report) -> None:
    """The iteration's trajectories over the training questions."""
    config = parts.config.rollout
    rollout = parts.rollout(parts.agent(f"iter-{plan.iteration}"), retriever_name(plan.iteration - 1))
    starts = [Start(item, sample) for item in parts.train_questions for sample in range(config.samples)]
    seed = generator_seed(parts.config.seed, plan.iteration, "rollout")
    trajectories = map_in_chunks(
        starts,
        lambda number, chunk: rollout.run(chunk, temperature=config.temperature, seed=generator_seed(seed, number)),
        kind=Trajectory,
        output=stage.path / "trajectories.jsonl",
        chunk_size=_ROLLOUT_CHUNK,
        progress=report,
    )
    count_trajectories(stage, trajectories)


def count_trajectories(stage: StageFolder, trajectories: list[Trajectory]) -> None:
    """Put into a stage's report how its trajectories ended."""
    stage.counts["trajectories"] = len(trajectories)
    for item in trajectories:
        stage.counts[item.status] = stage.counts.get(item.status, 0) + 1
    measured = [item for item in trajectories if item.status != "tool_failed"]
    if len(measured) < len(trajectories):
        stage.failed["tool failed"] = len(trajectories) - len(measured)
    if measured:
        stage.metrics["correct"] = sum(item.correct for item in measured) / len(measured)
        stage.metrics["searches"] = sum(item.num_searches for item in measured) / len(measured)
    cut = sum(turn.num_passages_cut for item in trajectories for turn in item.turns)
    if cut:
        stage.skipped["passages over the observation budget"] = cut


class _Iteration:
    """The records of one iteration's label stages."""

    def __init__(self, parts: Parts, plan: StagePlan) -> None:
        self._root = parts.root / f"iter-{plan.iteration}"

    def trajectories(self) -> list[Trajectory]:
        return list(read_records(self._root / "rollout" / "trajectories.jsonl", Trajectory))

    def queries(self) -> tuple[CandidateList, ...]:
        return usable(list(read_records(self._root / "candidates" / "candidates.jsonl", CandidateList)))

    def sub_answers(self) -> list[SubAnswer]:
        return list(read_records(self._root / "sub_answers" / "sub_answers.jsonl", SubAnswer))

    def relevance(self) -> list[Relevance]:
        return list(read_records(self._root / "relevance" / "relevance.jsonl", Relevance))

    def continuations(self) -> list[Continuation]:
        return list(read_records(self._root / "correctness" / "continuations.jsonl", Continuation))


def make_candidates(parts: Parts, plan: StagePlan, stage: StageFolder, report: Report) -> None:
    """The best passages of every query that the agent sent."""
    made = find_candidates(
        _Iteration(parts, plan).trajectories(),
        parts.questions,
        retriever=parts.retriever(retriever_name(plan.iteration - 1)),
        k=parts.config.labels.candidates,
        output=stage.path / "candidates.jsonl",
        progress=report,
    )
    stage.counts["queries"] = len(made.lists)
    for item in made.skipped:
        stage.skipped[item.reason] = stage.skipped.get(item.reason, 0) + 1


def make_sub_answers(parts: Parts, plan: StagePlan, stage: StageFolder, report: Report) -> None:
    """What each query should have found, by the judge."""
    records = _Iteration(parts, plan)
    requests = sub_answer_requests(records.queries(), records.trajectories(), parts.questions, parts.corpus.passages)
    judge = build_judge(parts.config.labels.judge, cache=parts.root / "judge" / "replies.jsonl")
    answers = run_sub_answers(requests, judge=judge, output=stage.path / "sub_answers.jsonl", progress=report)
    stage.counts.update(count_states(answers), sure=sum(item.text is not None for item in answers))


def make_relevance(parts: Parts, plan: StagePlan, stage: StageFolder, report: Report) -> None:
    """How well each candidate serves its query, by the judge."""
    records = _Iteration(parts, plan)
    values = run_relevance(
        records.queries(),
        records.sub_answers(),
        passages=parts.corpus.passages,
        judge=build_judge(parts.config.labels.judge, cache=parts.root / "judge" / "replies.jsonl"),
        output=stage.path / "relevance.jsonl",
        progress=report,
    )
    states = count_states(values)
    stage.counts["labels"] = states.pop("ok", 0)
    stage.failed.update(states)


def make_correctness(parts: Parts, plan: StagePlan, stage: StageFolder, report: Report) -> None:
    """Whether the agent gets to the right answer from each candidate."""
    config = parts.config.labels
    records = _Iteration(parts, plan)
    relevant: dict[str, frozenset[str]] = {}
    for item in records.relevance():
        if item.value is not None and item.value >= config.selection.min_relevance:
            relevant[item.query_id] = relevant.get(item.query_id, frozenset()) | {item.passage_id}
    queries = records.queries()
    made = run_correctness(
        queries,
        records.trajectories(),
        parts.questions,
        agent=parts.rollout(parts.agent(f"iter-{plan.iteration}"), retriever_name(plan.iteration - 1)),
        relevant=relevant,
        config=config.correctness,
        seed=generator_seed(parts.config.seed, plan.iteration, "correctness"),
        output=stage.path / "continuations.jsonl",
        progress=report,
    )
    stage.counts.update(queries=len(queries), continuations=len(made), **count_continuations(made))
    counted = Counter(item.query_id for item in made)
    none_relevant = sum(query.query_id not in relevant for query in queries)
    cut_short = sum(0 < counted[query.query_id] < len(query.candidates) for query in queries)
    stage.skipped.update(
        {
            reason: count
            for reason, count in {
                "query without a candidate of labels.selection.min_relevance": none_relevant,
                "rest of a query none of whose relevant candidates leads to a correct answer": cut_short,
            }.items()
            if count
        }
    )


def make_instances(parts: Parts, plan: StagePlan, stage: StageFolder, report: Report) -> None:
    """Training instances from both signals, with the audit."""
    records = _Iteration(parts, plan)
    settings = parts.config.labels.selection
    labelled = join_labels(
        records.queries(),
        parts.questions,
        records.relevance(),
        [correctness_of(item) for item in records.continuations()],
    )
    passages = parts.corpus.passages
    seed = generator_seed(parts.config.seed, plan.iteration, "selection")
    selection = select_instances(labelled, passages=passages, settings=settings, seed=seed)
    checked = audit(
        selection.instances,
        labelled,
        passages=passages,
        questions=parts.questions,
        min_relevance=settings.min_relevance,
    )
    write_records(stage.path / "skipped.jsonl", selection.skipped)
    write_records(stage.path / "dropped.jsonl", selection.dropped)
    write_records(stage.path / "short.jsonl", selection.short)
    write_records(stage.path / "audit.jsonl", [checked])
    write_records(stage.path / "instances.jsonl", selection.instances)
    stage.counts.update(queries=len(labelled), instances=len(selection.instances), short=len(selection.short))
    stage.counts.update({f"audit: {reason}": count for reason, count in checked.counts().items()})
    for item in selection.skipped:
        stage.skipped[item.reason] = stage.skipped.get(item.reason, 0) + 1
    report(len(labelled), len(labelled))


def make_retriever(parts: Parts, plan: StagePlan, stage: StageFolder, report: Report) -> None:
    """The iteration's retriever, or the base again where there is too little to learn from (said in the report)."""
    summary = train_iteration(parts, plan, folder=stage.path, report=report)
    if not summary.trained:
        BiEncoder.load(_retriever_start(parts, plan)).save(stage.path / "encoder")
        stage.skipped[summary.reason] = summary.num_instances
    stage.counts.update(
        instances=summary.num_instances, trained=int(summary.trained), steps_skipped=summary.num_steps_skipped
    )
    if summary.cut is not None:
        stage.counts.update(asdict(summary.cut))
    if summary.final_loss is not None:
        stage.metrics["final_loss"] = summary.final_loss
    if summary.dev is not None:
        stage.metrics.update({f"dev {measure}": value for measure, value in summary.dev.values.items()})
        stage.metrics["dev step"] = summary.dev.step


def train_iteration(parts: Parts, plan: StagePlan, *, folder: Path, report: Report) -> TrainingSummary:
    """Train an iteration's retriever in ``folder``; under a launcher, every process calls this."""
    config = parts.config
    instances = list(
        read_records(parts.root / f"iter-{plan.iteration}" / "instances" / "instances.jsonl", TrainingInstance)
    )
    return train_retriever(
        _retriever_start(parts, plan),
        instances,
        parts.corpus.passages,
        config.contrastive,
        folder=folder,
        seed=generator_seed(config.seed, plan.iteration, "retriever"),
        threads=config.threads,
        progress=report,
    )


def _retriever_start(parts: Parts, plan: StagePlan) -> Path:
    start = 0 if parts.config.restart == "base" else plan.iteration - 1
    return parts.root / f"iter-{start}" / "retriever" / "encoder"


def require_demonstrations(parts: Parts) -> None:
    """Say early that a warm start was asked for and cannot be had.

    Raises:
        DataError: no demonstrations, though ``warm_start.steps`` is above 0.
    """
    file = parts.root / "corpus" / "demonstrations.jsonl"
    if parts.config.warm_start.steps and not file.stat().st_size:
        raise DataError(
            "warm_start.steps is above 0 but there are no demonstrations; "
            "give data.demonstrations, or set warm_start.steps to 0"
        )
