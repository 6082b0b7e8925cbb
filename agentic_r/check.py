"""What is wrong with a run, and what it will need, before anything heavy starts; imports no torch.

Owns the list of what is looked at: data, models, budgets that cannot work together, the judge's endpoint and price,
memory and disk. Each part's own check is called where it has one. ``agentic-r check`` prints the findings; before a
run those are looked for that would stop it hours later, and that no data must be read for.
"""

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import httpx

from agentic_r import needs
from agentic_r.artifacts.stage import read_manifest
from agentic_r.config import (
    EndpointJudge,
    FilesData,
    PretrainedEncoder,
    PretrainedLanguageModel,
    RunConfig,
    TinyLanguageModel,
    TinyWorldData,
)
from agentic_r.contrastive.early import refuse_settings
from agentic_r.corpus.check import examine_data
from agentic_r.encoder.packages import EncoderShape, encoder_shape
from agentic_r.errors import AgenticRError, ConfigError
from agentic_r.labels.price import price_ceiling
from agentic_r.labels.prompting import load_judge_prompts
from agentic_r.llm.endpoint import EndpointChat
from agentic_r.llm.packages import PACKAGE, find_package, language_model_folder
from agentic_r.llm.packages import PACKAGES as MODEL_PACKAGES
from agentic_r.llm.shape import ModelShape, read_shape
from agentic_r.loop.layout import plan_stages, require_reuse, stages_until
from agentic_r.metrics.retrieval import evaluate_run
from agentic_r.workspace.ripgrep import find_ripgrep

__all__ = ["Finding", "Machine", "check_run", "refuse_early"]

Severity = Literal["error", "warning", "note"]

_ORDER: tuple[Severity, ...] = ("error", "warning", "note")
_TOKENS_A_WORD = 1.5  # of English, by the tokenizers in use; names and numbers take more
_CHARACTERS_A_WORD = 6
_WORLD_PASSAGES = 8  # a document of the tiny world, about
_NO_DEMONSTRATIONS = (
    "warm_start.steps is above 0 and there are no demonstrations; give data.demonstrations, or set steps to 0"
)
_LARGE_MODEL = 1_000_000_000  # weights: instruct models of this size mostly follow the prompt's protocol


@dataclass(frozen=True, slots=True)
class Finding:
    """One line: an error stops the run, a warning is likely not what was meant, a note informs."""

    severity: Severity
    text: str


@dataclass(frozen=True, slots=True)
class Machine:
    """What is there: memory in bytes (None where unknown) and free disk below the runs' folder."""

    memory_bytes: int | None
    free_disk_bytes: int

    @classmethod
    def here(cls, runs: Path) -> "Machine":
        """Ask this machine."""
        existing = next(folder for folder in (runs.absolute(), *runs.absolute().parents) if folder.exists())
        names = {"SC_PAGE_SIZE", "SC_PHYS_PAGES"} & os.sysconf_names.keys()
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if len(names) == 2 else None
        return cls(memory_bytes=memory, free_disk_bytes=shutil.disk_usage(existing).free)


@dataclass(frozen=True, slots=True)
class _Sizes:
    """What the data holds; 0 where it could not be read."""

    documents: int
    passages: int
    train_questions: int
    demonstrations: int


@dataclass(slots=True)
class _Findings:
    listed: list[Finding] = field(default_factory=list)

    def error(self, text: str) -> None:
        self.listed.append(Finding("error", text))

    def warning(self, text: str) -> None:
        self.listed.append(Finding("warning", text))

    def note(self, text: str) -> None:
        self.listed.append(Finding("note", text))

    def sorted(self) -> list[Finding]:
        return sorted(self.listed, key=lambda item: _ORDER.index(item.severity))


def check_run(
    config: RunConfig,
    *,
    environment: Mapping[str, str] | None = None,
    machine: Machine | None = None,
    reach: bool = False,
    transport: httpx.BaseTransport | None = None,
) -> list[Finding]:
    """Return all findings, errors first.

    Args:
        config: The run.
        environment: Where keys are looked up; the process's own by default.
        machine: What memory and disk are compared with; this machine by default.
        reach: Also ask the judge's endpoint whether it is there; nothing else uses the network.
        transport: What carries that request; the network by default.
    """
    findings = _Findings()
    _check_folders(config, findings)
    sizes = _check_data(config, findings)
    encoder = _check_encoder(config, findings)
    model = _check_language_model(config, findings)
    _check_budgets(config, sizes, model, findings)
    _check_judge(config, sizes, findings, environment=environment, reach=reach, transport=transport)
    _check_measuring(config, findings)
    _check_training(config, findings)
    _check_needs(config, sizes, encoder, model, machine or Machine.here(config.runs), findings)
    return findings.sorted()


def refuse_early(config: RunConfig, *, until: str | None = None, environment: Mapping[str, str] | None = None) -> None:
    """Refuse what a stage to come would refuse, however late: only stages that are not done, up to ``until``, count.

    A stage that a run in ``reuse`` finished counts as done: whether it fits is known only when it is taken over.

    Raises:
        ConfigError: the mistakes, in one line.
    """
    require_reuse(config)
    stages = stages_until(plan_stages(config, read_bytes=False), until)
    findings = _Findings()
    _check_room(config, findings)
    _refuse(findings)
    roots = (config.folder, *config.reuse)
    kinds = {plan.kind for plan in stages if all(read_manifest(plan.folder(root)) is None for root in roots)}
    no_sizes = _Sizes(documents=0, passages=0, train_questions=0, demonstrations=0)
    if "base_retriever" in kinds:
        _check_encoder(config, findings)
    if "warm_start" in kinds:
        _check_language_model(config, findings)
        _check_turns(config, findings)
        if isinstance(config.data, FilesData) and config.data.demonstrations is None and config.warm_start.steps:
            findings.error(_NO_DEMONSTRATIONS)
    if not kinds.isdisjoint(("sub_answers", "relevance")):
        _check_judge(config, no_sizes, findings, environment=environment, reach=False, transport=None)
    if "retriever" in kinds:
        _check_training(config, findings)
    if not kinds.isdisjoint(("retrieval", "workspace")):
        _check_measuring(config, findings)
    _refuse(findings)


def _refuse(findings: _Findings) -> None:
    errors = [item.text for item in findings.listed if item.severity == "error"]
    if errors:
        raise ConfigError("; ".join(errors))


def _check_folders(config: RunConfig, findings: _Findings) -> None:
    try:
        require_reuse(config)
        for other in config.reuse:
            if read_manifest(other / "corpus") is None:
                findings.warning(f"reuse: {other}: holds no finished stage of a run; give the folder of one")
    except AgenticRError as error:
        findings.error(str(error))
    _check_room(config, findings)


def _check_room(config: RunConfig, findings: _Findings) -> None:
    """See that the run's folder is one, or can become one."""
    existing = next(
        folder for folder in (config.folder.absolute(), *config.folder.absolute().parents) if _there(folder)
    )
    if not existing.is_dir():
        findings.error(
            f"runs: {existing} is a file, and {config.folder} is to be a folder; set runs or name to another"
        )
    elif not os.access(existing, os.W_OK):
        findings.error(f"runs: {existing} cannot be written to; set runs to another folder, or mend its permissions")


def _there(path: Path) -> bool:
    return os.path.lexists(path)  # what cannot be looked into counts as not there


def _check_training(config: RunConfig, findings: _Findings) -> None:
    try:
        refuse_settings(config.contrastive, has_dev=False)
    except AgenticRError as error:
        findings.error(str(error))


def _check_measuring(config: RunConfig, findings: _Findings) -> None:
    try:
        evaluate_run({}, {}, config.evaluation.measures)
    except AgenticRError as error:
        findings.error(f"evaluation.measures: {error}")
    try:
        find_ripgrep()
    except AgenticRError as error:
        findings.error(str(error))


def _check_data(config: RunConfig, findings: _Findings) -> _Sizes:
    match config.data:
        case TinyWorldData() as data:
            passages = _WORLD_PASSAGES * data.documents
            return _Sizes(data.documents, passages, data.train_questions, data.demonstrations)
        case FilesData() as data:
            found = examine_data(data, config.passages)
            for line in found.findings:
                severity, _, text = line.partition(": ")
                findings.listed.append(Finding("error" if severity == "error" else "warning", text))
            if found.documents and found.train_questions:
                findings.note(
                    f"data: {found.documents} documents, {found.passages} passages, {found.train_questions} training "
                    f"and {found.heldout_questions} held-out questions, {found.demonstrations} demonstrations"
                )
            return _Sizes(found.documents, found.passages, found.train_questions, found.demonstrations)


def _check_encoder(config: RunConfig, findings: _Findings) -> EncoderShape | None:
    match config.encoder:
        case PretrainedEncoder(path=path):
            try:
                shape = encoder_shape(path)
            except AgenticRError as error:
                findings.error(str(error))
                return None
        case scratch:
            layer = 12 * scratch.width * scratch.width
            parameters = scratch.vocabulary * scratch.width + scratch.layers * layer
            return EncoderShape(parameters, scratch.width, scratch.layers, None)
    for name in ("max_query_tokens", "max_passage_tokens"):
        wanted = config.encoder.max_query_tokens if name == "max_query_tokens" else config.encoder.max_passage_tokens
        if shape.max_tokens is not None and wanted > shape.max_tokens:
            findings.error(f"encoder.{name} {wanted} is more than the model's {shape.max_tokens} positions; lower it")
    words = config.passages.max_words * _TOKENS_A_WORD
    if words > config.encoder.max_passage_tokens:
        findings.warning(
            f"passages.max_words {config.passages.max_words} is about {words:.0f} tokens (an estimate), more than "
            f"encoder.max_passage_tokens {config.encoder.max_passage_tokens}: the ends of passages would not be encoded"
        )
    return shape


def _check_language_model(config: RunConfig, findings: _Findings) -> ModelShape | None:
    model = config.agent.model
    folder: Path | None = None
    try:
        match model:
            case TinyLanguageModel(path=folder):
                shape = read_shape(folder)
            case PretrainedLanguageModel(path=path) if path.startswith(PACKAGE):
                find_package(path)
                shape = MODEL_PACKAGES[path.removeprefix(PACKAGE)].shape
            case PretrainedLanguageModel(path=path):
                folder = language_model_folder(path, cache=Path())
                shape = read_shape(folder)
    except AgenticRError as error:
        findings.error(str(error))
        return None
    if config.agent.prompt == "chat" and folder is not None and not _has_chat_template(folder):
        findings.error(
            f"agent.prompt chat: the model in {folder} has no chat template; set agent.prompt to search, or take a "
            "model that was trained for chat"
        )
    wanted = config.agent.max_context_tokens
    if shape.max_tokens is not None and wanted > shape.max_tokens:
        findings.error(
            f"agent.max_context_tokens {wanted} is more than the model's {shape.max_tokens} positions; lower it"
        )
    if isinstance(model, PretrainedLanguageModel) and model.dtype == "bfloat16" and config.ppo.steps:
        findings.warning(
            "agent.model.dtype bfloat16: PPO's small updates are lost in rounding; use float32 unless memory forbids"
        )
    return shape


def _has_chat_template(folder: Path) -> bool:
    """Look where a tokenizer keeps it: a file of its own, or a field of its settings."""
    if (folder / "chat_template.jinja").is_file() or any(folder.glob("additional_chat_templates/*.jinja")):
        return True
    try:
        settings = json.loads((folder / "tokenizer_config.json").read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(settings, dict) and bool(settings.get("chat_template"))


def _check_turns(config: RunConfig, findings: _Findings) -> None:
    if config.agent.max_turns < 2:
        findings.error("agent.max_turns 1 leaves no turn after a search; set 2 or more")


def _check_budgets(config: RunConfig, sizes: _Sizes, model: ModelShape | None, findings: _Findings) -> None:
    agent, selection = config.agent, config.labels.selection
    _check_warm_start(config, sizes, model, findings)
    _check_turns(config, findings)
    passage_tokens = agent.passages_per_search * config.passages.max_words * _TOKENS_A_WORD
    if agent.prompt != "tiny" and passage_tokens > agent.max_observation_tokens:
        findings.warning(
            f"agent.passages_per_search {agent.passages_per_search} of {config.passages.max_words} words are about "
            f"{passage_tokens:.0f} tokens (an estimate), more than agent.max_observation_tokens "
            f"{agent.max_observation_tokens}: some would not be shown"
        )
    if selection.passages_per_query > config.labels.candidates:
        findings.warning(
            f"labels.selection.passages_per_query {selection.passages_per_query} is more than labels.candidates "
            f"{config.labels.candidates}: every instance would be short of negatives"
        )
    if sizes.passages and config.labels.candidates > sizes.passages:
        findings.warning(
            f"labels.candidates {config.labels.candidates}: the corpus has {sizes.passages} passages; lower it"
        )
    most = sizes.train_questions * config.rollout.samples * (agent.max_turns - 1)
    if sizes.train_questions and most < config.contrastive.min_instances:
        findings.warning(
            f"at most {most} queries can become instances, fewer than contrastive.min_instances "
            f"{config.contrastive.min_instances}: the retriever would stay as it is; give more questions"
        )
    if config.ppo.steps and 0 < sizes.train_questions < config.ppo.rollouts_per_step:
        findings.note(
            f"ppo.rollouts_per_step {config.ppo.rollouts_per_step} is more than the {sizes.train_questions} training "
            "questions: each is attempted more than once a step"
        )


def _check_warm_start(config: RunConfig, sizes: _Sizes, model: ModelShape | None, findings: _Findings) -> None:
    if config.warm_start.steps and sizes.train_questions and not sizes.demonstrations:
        findings.error(_NO_DEMONSTRATIONS)
    if config.warm_start.steps or not config.ppo.steps:
        return
    if model is not None and model.parameters >= _LARGE_MODEL:
        findings.note(
            "warm_start.steps 0: the agent learns the search protocol from its prompt alone; watch invalid_share in "
            "its metrics.jsonl"
        )
    else:
        findings.warning(
            "warm_start.steps 0: a small agent that was never shown the search protocol gets almost no reward from "
            "PPO; give data.demonstrations and some steps, or watch invalid_share in its metrics.jsonl"
        )


def _check_judge(
    config: RunConfig,
    sizes: _Sizes,
    findings: _Findings,
    *,
    environment: Mapping[str, str] | None,
    reach: bool,
    transport: httpx.BaseTransport | None,
) -> None:
    judge = config.labels.judge
    if not isinstance(judge, EndpointJudge):
        return
    try:
        chat = EndpointChat(judge, environment=environment, transport=transport)
        if reach:
            findings.note(f"labels.judge: {chat.check()}")
    except AgenticRError as error:
        findings.error(f"labels.judge: {error}")
    ceiling = price_ceiling(
        load_judge_prompts(),
        trajectories=sizes.train_questions * config.rollout.samples,
        queries_each=config.agent.max_turns - 1,
        candidates=config.labels.candidates,
        shown=config.agent.passages_per_search,
        passage_characters=config.passages.max_words * _CHARACTERS_A_WORD,
        max_tokens=judge.max_tokens,
    )
    findings.note(f"labels.judge, each of {config.iterations} iterations, at most: {ceiling.line()}")


def _check_needs(
    config: RunConfig,
    sizes: _Sizes,
    encoder: EncoderShape | None,
    model: ModelShape | None,
    machine: Machine,
    findings: _Findings,
) -> None:
    listed: list[needs.Need] = []
    dtype = config.agent.model.dtype if isinstance(config.agent.model, PretrainedLanguageModel) else "float32"
    if model is not None:
        if config.warm_start.steps:
            listed.append(needs.warm_start_need(model, dtype=dtype, agent=config.agent, warm_start=config.warm_start))
        if config.ppo.steps:
            listed.append(needs.ppo_need(model, dtype=dtype, agent=config.agent, ppo=config.ppo))
        batch_size = config.labels.correctness.batch_size
        listed.append(needs.continuation_need(model, dtype=dtype, agent=config.agent, batch_size=batch_size))
    index = needs.index_need(passages=sizes.passages, width=encoder.width if encoder is not None else 0)
    if encoder is not None:
        tokens = config.encoder.max_passage_tokens
        listed += [index, needs.retriever_need(encoder, tokens=tokens, contrastive=config.contrastive)]
    for need in listed:
        findings.note(need.line())
        if machine.memory_bytes is not None and need.total_bytes > machine.memory_bytes:
            findings.warning(
                f"{need.stage} may need {needs.gigabytes(need.total_bytes)}, this machine has "
                f"{needs.gigabytes(machine.memory_bytes)}; lower its batch or context, or take a smaller model"
            )
    if model is not None and encoder is not None:
        disk = needs.disk_bytes(
            language_model=model.parameters,
            encoder=encoder.parameters,
            vectors=index.fixed_bytes,
            dtype=dtype,
            iterations=config.iterations,
            critic=config.ppo.critic,
        )
        findings.note(f"disk: about {needs.gigabytes(disk)} below {config.folder} (an estimate)")
        if disk > machine.free_disk_bytes:
            findings.error(
                f"disk: about {needs.gigabytes(disk)} will be needed below {config.folder}, "
                f"{needs.gigabytes(machine.free_disk_bytes)} are free; make room, or set runs to another disk"
            )
