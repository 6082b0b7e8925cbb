"""Where a run keeps what, and what each stage's identity is made of.

Everything here follows from the configuration alone (and the bytes of the user's files), so that a dry run knows
what is done and what is stale without loading anything.
"""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentic_r.artifacts.fingerprint import fingerprint_files, fingerprint_value
from agentic_r.artifacts.stage import StageIdentity, open_stage, read_manifest
from agentic_r.config import (
    FilesData,
    PretrainedEncoder,
    PretrainedLanguageModel,
    RunConfig,
    Section,
    TinyLanguageModel,
)
from agentic_r.errors import ConfigError, StaleError

__all__ = [
    "BASE_WITH_QUESTION",
    "StagePlan",
    "agent_names",
    "plan_stages",
    "refuse_stale",
    "require_reuse",
    "retriever_name",
    "retriever_names",
    "stages_until",
]

BASE_WITH_QUESTION = "base+question"

_MAX_SHOWN = 4  # names of stages in one line
# Raised where a stage's output changes meaning.
_SCHEMAS = {"queries": 2, "candidates": 2, "instances": 2, "retriever": 2, "workspace": 3}


@dataclass(frozen=True, slots=True)
class StagePlan:
    """One stage: its name (also its folder below the run's), kind, iteration and identity."""

    name: str
    kind: str
    iteration: int
    identity: StageIdentity
    pair: tuple[str, str] = ("", "")

    def folder(self, root: Path) -> Path:
        """Where the stage's files are."""
        return root / self.name


class _Planner:
    """Collects stages; a stage's inputs are the fingerprints of the stages it names."""

    def __init__(self, config: RunConfig, *, read_bytes: bool) -> None:
        self._config = config
        self._read_bytes = read_bytes
        self.stages: dict[str, StagePlan] = {}

    def add(
        self,
        name: str,
        kind: str,
        *,
        after: Iterable[str],
        settings: Mapping[str, object],
        iteration: int = 0,
        pair: tuple[str, str] = ("", ""),
        external: Mapping[str, Path] | None = None,
    ) -> None:
        inputs = {key: self.stages[key].identity.fingerprint for key in after}
        if self._read_bytes:
            inputs |= {f"bytes of {key}": _bytes_of(path) for key, path in (external or {}).items()}
        identity = StageIdentity(
            name=name,
            schema=_SCHEMAS.get(kind, 1),
            inputs=inputs,
            settings=settings,
            seed=self._config.seed,
        )
        self.stages[name] = StagePlan(name=name, kind=kind, iteration=iteration, identity=identity, pair=pair)


def plan_stages(config: RunConfig, *, read_bytes: bool = True) -> list[StagePlan]:
    """Return the stages of a run in their order.

    Args:
        config: The run.
        read_bytes: Make the bytes of the user's files part of the identities, as a run does; without them names and
            order are right, and known at once.
    """
    plan = _Planner(config, read_bytes=read_bytes)
    plan.add(
        "corpus",
        "corpus",
        after=(),
        settings=_flat(data=config.data, passages=config.passages),
        external=_data_files(config),
    )
    plan.add("bm25", "bm25", after=("corpus",), settings=_flat(bm25=config.index.bm25))
    plan.add(
        "iter-0/retriever",
        "base_retriever",
        after=("corpus",),
        settings={**_flat(encoder=config.encoder), "threads": config.threads},
        external=_encoder_files(config),
    )
    plan.add("iter-0/index", "index", after=("corpus", "iter-0/retriever"), settings=_index(config))
    plan.add(
        "warm/agent",
        "warm_start",
        after=("corpus", "iter-0/index"),
        settings={**_flat(agent=config.agent, warm_start=config.warm_start), "threads": config.threads},
        external=_model_files(config),
    )
    plan.add("queries", "queries", after=("warm/agent", "iter-0/index"), settings=_flat(agent=config.agent))
    for iteration in range(1, config.iterations + 1):
        _add_iteration(plan, config, iteration)
    _add_measuring(plan, config)
    return list(plan.stages.values())


def stages_until(stages: Sequence[StagePlan], until: str | None) -> list[StagePlan]:
    """Return the stages up to the one named ``until``, itself included; all of them for None.

    Raises:
        ConfigError: there is no such stage; names those there are.
    """
    names = [plan.name for plan in stages]
    if until is None:
        return list(stages)
    if until not in names:
        close = difflib.get_close_matches(until, names, n=1)
        meant = f" did you mean {close[0]}?" if close else ""
        raise ConfigError(f"--until {until}: no such stage;{meant} the stages are {', '.join(names)}")
    return list(stages[: names.index(until) + 1])


def require_reuse(config: RunConfig) -> None:
    """Refuse to make everything anew where a run that was to be taken over is not there.

    Raises:
        ConfigError: a folder in ``reuse`` does not exist.
    """
    for folder in config.reuse:
        if not folder.is_dir():
            raise ConfigError(
                f"reuse: {folder}: no such folder; finish that run first, or take it out of reuse (--set 'reuse=[]')"
            )


def _add_iteration(plan: _Planner, config: RunConfig, iteration: int) -> None:
    here, before = f"iter-{iteration}", f"iter-{iteration - 1}"
    previous = config.restart == "previous" and iteration > 1
    agent_start = f"{before}/agent" if previous else "warm/agent"
    encoder_start = f"{before}/retriever" if previous else "iter-0/retriever"
    agent = _flat(agent=config.agent)
    threads = {"threads": config.threads}

    def add(name: str, kind: str, after: Iterable[str], settings: Mapping[str, object]) -> None:
        plan.add(f"{here}/{name}", kind, after=after, settings=settings, iteration=iteration)

    index = f"{before}/index"
    add("agent", "agent", (agent_start, index), {**agent, **_flat(ppo=config.ppo), **threads})
    add("rollout", "rollout", (f"{here}/agent", index), {**agent, **_flat(rollout=config.rollout)})
    add("candidates", "candidates", (f"{here}/rollout", index), {"candidates": config.labels.candidates})
    judged = _flat(judge=config.labels.judge)
    add("sub_answers", "sub_answers", (f"{here}/candidates",), judged)
    add("relevance", "relevance", (f"{here}/sub_answers",), judged)
    add(
        "correctness",
        "correctness",
        (f"{here}/relevance", f"{here}/agent"),
        {
            **agent,
            **_flat(correctness=config.labels.correctness),
            "selection.min_relevance": config.labels.selection.min_relevance,
        },
    )
    add("instances", "instances", (f"{here}/correctness",), _flat(selection=config.labels.selection))
    add(
        "retriever",
        "retriever",
        (f"{here}/instances", encoder_start),
        {**_flat(contrastive=config.contrastive), **threads},
    )
    add("index", "index", ("corpus", f"{here}/retriever"), _index(config))


def _add_measuring(plan: _Planner, config: RunConfig) -> None:
    measured = _flat(evaluation=config.evaluation)
    indexes = {name: _index_stage(name) for name in retriever_names(config)}
    for name, stage in indexes.items():
        plan.add(f"evaluation/{name}", "retrieval", after=(stage, "queries"), settings=measured, pair=("", name))
    for agent in agent_names(config):
        for name, stage in indexes.items():
            plan.add(
                f"cross/{agent}/{name}",
                "answers",
                after=(f"{agent}/agent", stage),
                settings=_flat(agent=config.agent),
                pair=(agent, name),
            )
    after = dict.fromkeys(("corpus", "queries", *indexes.values()))
    plan.add("workspace", "workspace", after=after, settings=_flat(workspace=config.workspace))
    last = f"iter-{config.iterations}"
    measures = [name for name in plan.stages if name.startswith(("evaluation/", "cross/"))]
    plan.add(
        "export",
        "export",
        after=(f"{last}/retriever", "queries", "workspace", *measures),
        settings=_flat(export=config.export),
        iteration=config.iterations,
    )


def retriever_name(iteration: int) -> str:
    """The name of the retriever that an iteration ends with: ``base``, ``iter-1`` ..."""
    return f"iter-{iteration}" if iteration else "base"


def retriever_names(config: RunConfig) -> list[str]:
    """All retrievers of a run; the base twice, asked the query alone and asked with the question."""
    return ["bm25", "base", BASE_WITH_QUESTION, *(f"iter-{number}" for number in range(1, config.iterations + 1))]


def agent_names(config: RunConfig) -> list[str]:
    """All agents of a run."""
    return ["warm", *(f"iter-{number}" for number in range(1, config.iterations + 1))]


def _index_stage(retriever: str) -> str:
    match retriever:
        case "bm25":
            return "bm25"
        case "base" | "base+question":
            return "iter-0/index"
        case _:
            return f"{retriever}/index"


def _flat(**sections: Section) -> dict[str, object]:
    return {
        f"{name}.{key}": value
        for name, section in sections.items()
        for key, value in _leaves(section.model_dump(mode="json"))
    }


def _leaves(tree: Mapping[str, object], prefix: str = "") -> Iterable[tuple[str, object]]:
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _index(config: RunConfig) -> dict[str, object]:
    return {"index.batch_size": config.index.batch_size, "index.shard_passages": config.index.shard_passages}


def _data_files(config: RunConfig) -> dict[str, Path]:
    match config.data:
        case FilesData() as data:
            named = {
                "questions": data.questions,
                "heldout_questions": data.heldout_questions,
                "demonstrations": data.demonstrations,
                "documents": data.documents,
            }
            return {key: path for key, path in named.items() if path is not None}
        case _:
            return {}


def _encoder_files(config: RunConfig) -> dict[str, Path]:
    match config.encoder:
        case PretrainedEncoder(path=path) if not path.startswith("package:"):
            return {"the encoder": Path(path)}
        case _:
            return {}


def _model_files(config: RunConfig) -> dict[str, Path]:
    match config.agent.model:
        case TinyLanguageModel(path=folder):
            return {"the language model": folder}
        case PretrainedLanguageModel(path=path) if not path.startswith("package:"):
            return {"the language model": Path(path)}
        case _:
            return {}


def _bytes_of(path: Path) -> str:
    """Fingerprint of a file or of all files below a folder; a missing one is left for the stage to name."""
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.is_file())
        return fingerprint_value([[file.relative_to(path).as_posix(), fingerprint_files([file])] for file in files])
    return fingerprint_files([path]) if path.exists() else "missing"


def refuse_stale(stages: Sequence[StagePlan], root: Path) -> None:
    """Look at every finished stage before any work is done; the first stale one says why, the others follow from it.

    Raises:
        StaleError: names them.
    """
    reason, others = "", []
    for plan in stages:
        folder = plan.folder(root)
        if read_manifest(folder) is None:
            continue
        try:
            open_stage(folder, plan.identity)
        except StaleError as error:
            if reason:
                others.append(plan.name)
            reason = reason or str(error)
    if reason:
        more = f" (and {len(others) - _MAX_SHOWN} more)" if len(others) > _MAX_SHOWN else ""
        also = f"; stale too: {', '.join(others[:_MAX_SHOWN])}{more}" if others else ""
        raise StaleError(reason + also)
