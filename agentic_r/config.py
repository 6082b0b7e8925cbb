"""The whole configuration tree: every setting once, with its default and where it comes from.

One YAML file is read whole; unknown keys are errors. Imports no torch, so that ``--help``, ``check``
and every configuration error answer at once. Published values: ``configs/paper/``.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import yaml
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PositiveInt,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from yaml.error import MarkedYAMLError

from agentic_r.errors import ConfigError
from agentic_r.validation import describe_mistakes
from agentic_r.variables import expand_variables

__all__ = [
    "SYSTEMS",
    "AgentConfig",
    "Bm25Config",
    "ContrastiveConfig",
    "CorrectnessConfig",
    "DataConfig",
    "EncoderConfig",
    "EndpointJudge",
    "EvaluationConfig",
    "ExportConfig",
    "FilesData",
    "IndexConfig",
    "JudgeConfig",
    "LabelsConfig",
    "LanguageModelConfig",
    "LoraConfig",
    "MiningConfig",
    "OnnxPrecision",
    "OpeningConfig",
    "PassagesConfig",
    "PpoConfig",
    "PretrainedEncoder",
    "PretrainedLanguageModel",
    "RetrieverConfig",
    "RolloutConfig",
    "RuleJudge",
    "RunConfig",
    "ScratchEncoder",
    "SearchConfig",
    "Section",
    "SelectionConfig",
    "ServeConfig",
    "SystemName",
    "TinyLanguageModel",
    "TinyWorldData",
    "WarmStartConfig",
    "WorkspaceConfig",
    "environment_key",
    "export_settings",
    "load_config",
    "load_retriever_config",
    "load_serve_config",
    "load_workspace",
]


_Root = TypeVar("_Root", bound=BaseModel)


class Section(BaseModel):
    """A frozen part of the tree in which an unknown key, and a number that is none, is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


def _expand(value: object, info: ValidationInfo) -> object:
    environment = (info.context or {}).get("environment")
    return expand_variables(value, environment) if isinstance(value, str) and environment is not None else value


FilePath = Annotated[Path, BeforeValidator(_expand)]  # a path in which load_config expands ${NAME} and ${NAME:-default}
PathText = Annotated[str, BeforeValidator(_expand)]  # the same, where the text may also be package:<name>


class TinyWorldData(Section):
    """A generated world (``agentic_r.world``); the run's seed is its seed."""

    kind: Literal["tiny_world"]
    documents: int = Field(default=1200, ge=40, le=25_600)  # no more: the world has that many names
    train_questions: int = Field(default=400, ge=4)
    heldout_questions: int = Field(default=150, ge=2)
    demonstrations: int = Field(default=1500, ge=1)


class FilesData(Section):
    """The user's own files. ``documents`` is a folder or a jsonl/tsv/parquet file.

    ``questions`` holds training questions (or all of them: then ``heldout_share`` are set aside by
    hash of their id). ``demonstrations`` are optional scripts for the warm start: a file of demonstrations of
    these questions, or a folder that holds demonstrations with questions and documents of their own
    (``documents.jsonl``, ``questions.jsonl``, ``demonstrations.jsonl``), to learn the search protocol elsewhere.
    """

    kind: Literal["files"]
    documents: FilePath
    questions: FilePath
    heldout_questions: FilePath | None = None
    demonstrations: FilePath | None = None
    heldout_share: float = Field(default=0.2, gt=0, lt=1)
    max_train_questions: int | None = Field(default=None, ge=1)
    max_heldout_questions: int | None = Field(default=None, ge=1)
    broken_lines: Literal["stop", "skip"] = "stop"
    conflicting_ids: Literal["stop", "first"] = "stop"


DataConfig = Annotated[TinyWorldData | FilesData, Field(discriminator="kind")]


class PassagesConfig(Section):
    """How documents become passages. About 100 words, as in the published corpus (1.1)."""

    max_words: int = Field(default=100, ge=5)
    keep_empty: bool = False


class ScratchEncoder(Section):
    """A small BERT trained from scratch on the corpus alone (no question is ever seen)."""

    kind: Literal["scratch"]
    layers: int = Field(default=2, ge=1)
    width: int = Field(default=128, ge=1)
    heads: int = Field(default=4, ge=1)
    vocabulary: int = Field(default=4000, ge=1)
    steps: int = Field(default=100, ge=0)
    batch_size: int = Field(default=64, ge=1)
    learning_rate: float = Field(default=5e-5, gt=0)
    max_query_tokens: int = Field(default=48, ge=1)
    max_passage_tokens: int = Field(default=64, ge=1)
    query_format: Literal["question_query", "query", "history"] = "question_query"

    @model_validator(mode="after")
    def _heads_divide_the_width(self) -> "ScratchEncoder":
        if self.width % self.heads:
            raise ValueError(f"encoder.width {self.width} is not a multiple of encoder.heads {self.heads}; make it one")
        return self


class PretrainedEncoder(Section):
    """A sentence-transformers folder, or ``package:<name>`` of one that ships weights.

    Prefixes, pooling and normalisation come from the checkpoint unless given here.
    """

    kind: Literal["pretrained"]
    path: PathText
    query_prefix: str | None = None
    passage_prefix: str | None = None
    max_query_tokens: int = Field(default=128, ge=1)
    max_passage_tokens: int = Field(default=256, ge=1)
    query_format: Literal["question_query", "query", "history"] = "question_query"
    dtype: Literal["float32", "bfloat16"] = "float32"


EncoderConfig = Annotated[ScratchEncoder | PretrainedEncoder, Field(discriminator="kind")]


class Bm25Config(Section):
    """BM25 by bm25s; its library's defaults. ``k1`` and ``b`` are part of the fingerprint."""

    k1: float = Field(default=1.5, ge=0)
    b: float = Field(default=0.75, ge=0, le=1)


class IndexConfig(Section):
    """The dense index: exact inner product (faiss flat)."""

    batch_size: int = Field(default=128, ge=1)
    shard_passages: int = Field(default=20000, ge=1)
    bm25: Bm25Config = Bm25Config()


class TinyLanguageModel(Section):
    """The small model in ``data/tiny`` that reads the tiny world's language, or one like it."""

    kind: Literal["tiny"]
    path: FilePath


class PretrainedLanguageModel(Section):
    """A Hugging Face folder, or ``package:<name>`` of one that ships weights."""

    kind: Literal["pretrained"]
    path: PathText
    dtype: Literal["float32", "bfloat16"] = "float32"


LanguageModelConfig = Annotated[TinyLanguageModel | PretrainedLanguageModel, Field(discriminator="kind")]


class AgentConfig(Section):
    """The search protocol's budgets. Turns and passages a search as published (1.2)."""

    model: LanguageModelConfig
    prompt: Literal["tiny", "search", "chat"] = "search"
    max_turns: int = Field(default=5, ge=1)
    passages_per_search: int = Field(default=3, ge=1)
    max_turn_tokens: int = Field(default=500, ge=1)
    max_observation_tokens: int = Field(default=800, ge=1)
    max_context_tokens: int = Field(default=4096, ge=16)
    batch_size: int = Field(default=64, ge=1)
    reward: Literal["em", "f1"] = "em"
    correct_f1: float = Field(default=0.5, gt=0, le=1)
    answer_mode: Literal["default", "squad"] = "default"


class WarmStartConfig(Section):
    """Supervised start on demonstration trajectories (TRL's SFT trainer); 0 steps skips it."""

    steps: int = Field(default=200, ge=0)
    batch_size: int = Field(default=32, ge=1)
    learning_rate: float = Field(default=1e-3, gt=0)
    max_demonstrations: int | None = Field(default=None, ge=1)


class PpoConfig(Section):
    """PPO on sampled tokens only. Clip, value clip, gamma, lambda as published (1.2); sizes are ours.

    ``agent.reward: f1`` rewards with token F1 itself. For ablation: ``constant_reward`` takes the reward's place,
    ``shuffle_rewards`` gives each attempt the reward of another of the same step.
    """

    steps: int = Field(default=40, ge=0)
    rollouts_per_step: int = Field(default=64, ge=1)
    minibatch_size: int = Field(default=32, ge=1)
    epochs: int = Field(default=1, ge=1)
    learning_rate: float = Field(default=2e-4, gt=0)
    critic: Literal["shared", "separate"] = "separate"
    critic_learning_rate: float = Field(default=5e-4, gt=0)
    value_weight: float = Field(default=0.5, ge=0)
    warmup_steps: int = Field(default=2, ge=0)
    clip: float = Field(default=0.2, gt=0)
    value_clip: float = Field(default=0.5, gt=0)
    entropy: float = Field(default=0.001, ge=0)
    kl: float = Field(default=0.001, ge=0)
    gamma: float = Field(default=1.0, ge=0, le=1)
    lam: float = Field(default=1.0, ge=0, le=1)
    temperature: float = Field(default=1.0, gt=0)
    max_grad_norm: float = Field(default=1.0, gt=0)
    whiten: bool = True
    save_every: int = Field(default=10, ge=1)
    constant_reward: float | None = None
    shuffle_rewards: bool = False


class RolloutConfig(Section):
    """Trajectories over the training questions: one greedy attempt each, as published (1.3)."""

    samples: int = Field(default=1, ge=1)
    temperature: float = Field(default=0.0, ge=0)


class RuleJudge(Section):
    """A judge that needs no model: reads the trajectory and the passages, never gold."""

    kind: Literal["rule"]


class EndpointJudge(Section):
    """Any OpenAI-compatible chat endpoint. The key is read from the environment variable named here."""

    kind: Literal["endpoint"]
    base_url: str
    model: str
    api_key_env: str | None = None
    temperature: float = Field(default=0.0, ge=0)
    max_tokens: int = Field(default=1000, ge=1)
    timeout_s: float = Field(default=60.0, gt=0)
    max_retries: int = Field(default=3, ge=0)
    concurrency: int = Field(default=8, ge=1)


JudgeConfig = Annotated[RuleJudge | EndpointJudge, Field(discriminator="kind")]


class CorrectnessConfig(Section):
    """Continuing the agent from each candidate: greedy, one passage alone in its block (1.7).

    ``batch_size`` continuations are kept together: a kill loses at most so many.
    """

    batch_size: int = Field(default=512, ge=1)


class SelectionConfig(Section):
    """Which candidates become positives and negatives.

    ``paper`` as published (1.8); ``strict`` (our default) never uses an answer-correct passage, or one
    with a positive's text, as a negative.
    """

    rule: Literal["paper", "strict"] = "strict"
    min_relevance: float = Field(default=0.6, ge=0, le=1)
    passages_per_query: int = Field(default=16, ge=2)
    max_positives: int = Field(default=3, ge=1)
    shuffle_labels: bool = False


class LabelsConfig(Section):
    """Candidates and their two signals."""

    candidates: int = Field(default=20, ge=2)
    judge: JudgeConfig = RuleJudge(kind="rule")
    correctness: CorrectnessConfig = CorrectnessConfig()
    selection: SelectionConfig = SelectionConfig()


class LoraConfig(Section):
    """Low-rank adapters, merged into the encoder when training ends. peft's defaults; no modules: its choice."""

    rank: int = Field(default=8, ge=1)
    alpha: int = Field(default=8, ge=1)
    dropout: float = Field(default=0.0, ge=0, lt=1)
    modules: tuple[str, ...] = ()


class ContrastiveConfig(Section):
    """InfoNCE at temperature 0.01 with in-batch negatives (1.9); batch and steps are ours.

    ``query_format`` is what the trained retriever reads; null leaves it as the base encoder has it (``question_query``,
    as published, unless the encoder's section says otherwise).

    ``batch_size`` counts queries over all processes. ``dev_share`` of the questions are held out, measured every
    ``dev_every`` steps by ``dev_measures`` (the first decides); the best weights are kept, and after ``patience``
    evaluations without a better one training ends. 0: no dev evaluation, the last weights are kept.
    """

    query_format: Literal["question_query", "query", "history"] | None = None
    batch_size: int = Field(default=16, ge=1)
    epochs: int = Field(default=2, ge=1)
    learning_rate: float = Field(default=2e-5, gt=0)
    warmup_ratio: float = Field(default=0.1, ge=0, le=1)
    temperature: float = Field(default=0.01, gt=0)
    min_instances: int = Field(default=16, ge=1)
    save_every: int = Field(default=50, ge=1)
    mini_batch_size: int = Field(default=16, ge=1)  # measured: on CPU larger passes are slower
    activation_bytes: int = Field(default=2**28, ge=0)
    unpadded: bool = True
    precision: Literal["float32", "bfloat16", "float16"] = "float32"
    gradient_checkpointing: bool = False
    lora: LoraConfig | None = None
    matryoshka_dims: tuple[int, ...] = ()
    false_negative_margin: float | None = None
    mask_identities: bool = True  # false shows what masking is worth
    soft_target_weight: float = Field(default=0.0, ge=0, le=1)
    soft_target_temperature: float = Field(default=0.25, gt=0)  # of relevance 0-1: 1 against 0.5 is about 7 to 1
    dev_share: float = Field(default=0.0, ge=0, lt=1)
    dev_every: int = Field(default=50, ge=1)
    dev_measures: tuple[str, ...] = Field(default=("nDCG@10",), min_length=1)
    patience: int | None = Field(default=None, ge=1)
    report_to: tuple[str, ...] = ()


class EvaluationConfig(Section):
    """What is measured on held-out questions."""

    measures: tuple[str, ...] = ("R@5", "nDCG@10")
    bootstrap_samples: int = Field(default=2000, ge=1)
    drop_query_id_hits: bool = False


class SearchConfig(Section):
    """RISE's ``search``: depth of a sub-query and previews as published (RISE 1.2); a preview's width is ours.

    ``max_members`` caps a question's workspace: what comes beyond is refused and counted.
    """

    depth: int = Field(default=1000, ge=1)
    previews: int = Field(default=10, ge=0)
    preview_characters: int = Field(default=160, ge=20)
    max_members: int | None = Field(default=None, ge=1)


class OpeningConfig(Section):
    """RARG+'s opening paragraphs: documents read, paragraphs shown, sizes in characters; as published (RARG 2.4)."""

    opened_documents: int = Field(default=20, ge=1)
    paragraphs: int = Field(default=10, ge=1)
    min_paragraph: int = Field(default=400, ge=1)
    target_paragraph: int = Field(default=600, ge=1)
    max_paragraph: int = Field(default=1200, ge=1)

    @model_validator(mode="after")
    def _sizes_are_ordered(self) -> "OpeningConfig":
        if not self.min_paragraph <= self.target_paragraph <= self.max_paragraph:
            raise ValueError("workspace.opening: expected min_paragraph <= target_paragraph <= max_paragraph")
        return self


SystemName = Literal["rise", "rarg", "rarg+", "rarg++"]
SYSTEMS: tuple[SystemName, ...] = ("rise", "rarg", "rarg+", "rarg++")


class WorkspaceConfig(Section):
    """The workspace's tools under the scripted probe: systems, documents in scope, and the output it may read.

    Matches and seconds a scan, and the pool of RARG++, as published (RARG 2.3, 2.5); what one document may fill, how
    much is read (documents a query, lines a document) and how a budget is shared are ours. ``entry_share`` of a query's
    part is for what comes before the scan (previews, opening paragraphs), ``scan_share`` of the rest for the scan.
    ``scope_depths`` and ``budgets`` (in characters) are where coverage is reported.
    """

    systems: tuple[SystemName, ...] = SYSTEMS
    scope_documents: int = Field(default=100, ge=1, le=10_000)
    max_matches: int = Field(default=30, ge=1)
    max_output_characters: int = Field(default=4000, ge=100)
    excerpt_characters: int = Field(default=500, ge=20)
    max_matches_per_document: int | None = Field(default=8, ge=1)
    documents_read: int = Field(default=2, ge=0)
    read_lines: int = Field(default=8, ge=1)
    scan_timeout_s: float = Field(default=30.0, gt=0)
    entry_share: float = Field(default=0.4, ge=0, le=1)
    scan_share: float = Field(default=0.6, ge=0, le=1)
    search: SearchConfig = SearchConfig()
    opening: OpeningConfig = OpeningConfig()
    pool_matches: int = Field(default=500, ge=1)
    scope_depths: tuple[PositiveInt, ...] = (1, 3, 5, 10, 20)
    budgets: tuple[PositiveInt, ...] = (500, 1000, 2000)


OnnxPrecision = Literal["fp32", "fp16", "int8"]


class ExportConfig(Section):
    """What an export holds beside the checkpoint, and the tolerances that fail it.

    ``onnx`` names the graphs to write (they need the packages of the extra ``export``), ``dimensions`` the shorter
    vectors that a graph also gives. Differences are of one vector component, ``overlap`` is the share of the first ten
    passages that stay among the first ten. The limits for int8 are ours: what dynamic quantisation of MiniLM and E5
    kept, with room below. Those of ``endpoint`` leave room for a service that computes in half precision.
    """

    onnx: tuple[OnnxPrecision, ...] = ()
    dimensions: tuple[Annotated[int, Field(ge=1)], ...] = ()
    max_difference: float = Field(default=1e-5, ge=0)
    max_norm_error: float = Field(default=1e-5, ge=0)
    onnx_max_difference: float = Field(default=1e-4, ge=0)
    fp16_min_cosine: float = Field(default=0.999, ge=-1, le=1)
    int8_min_cosine: float = Field(default=0.95, ge=-1, le=1)
    min_overlap: float = Field(default=0.98, ge=0, le=1)
    int8_min_overlap: float = Field(default=0.8, ge=0, le=1)
    endpoint_min_cosine: float = Field(default=0.999, ge=-1, le=1)
    endpoint_max_norm_error: float = Field(default=0.01, ge=0)


class ServeConfig(Section):
    """What a server takes in, and how much of it may wait. Sizes are ours.

    The whole batch of a published agent (512 queries, 1.2) is one request, and asks for 3 passages a query.
    ``dtype`` null encodes in the type that the export names. ``max_connections`` requests are in progress at most; as
    many connections again may be open beside them, idle ones for example.
    """

    dtype: Literal["float32", "bfloat16"] | None = None
    threads: int = Field(default=1, ge=1)
    default_k: int = Field(default=3, ge=1)
    max_k: int = Field(default=1000, ge=1)
    max_texts: int = Field(default=1024, ge=1)
    max_text_characters: int = Field(default=8192, ge=1)
    max_body_bytes: int = Field(default=2_000_000, ge=1)
    body_timeout_s: float = Field(default=10.0, gt=0)
    max_waiting_texts: int = Field(default=4096, ge=1)
    max_batch_texts: int = Field(default=64, ge=1)
    max_connections: int = Field(default=1024, ge=1)
    stop_timeout_s: float = Field(default=30.0, gt=0)

    @model_validator(mode="after")
    def _a_request_can_be_admitted(self) -> "ServeConfig":
        if self.max_texts > self.max_waiting_texts:
            raise ValueError(
                f"max_texts {self.max_texts} is more than max_waiting_texts {self.max_waiting_texts}: "
                "such a request could never be admitted; lower the one or raise the other"
            )
        if self.default_k > self.max_k:
            raise ValueError(f"default_k {self.default_k} is more than max_k {self.max_k}; lower it")
        return self


class RunConfig(Section):
    """One run of the loop. ``reuse`` names folders of other runs whose finished stages serve, by fingerprint."""

    name: str
    seed: int = 0
    runs: FilePath = Path("runs")
    reuse: tuple[FilePath, ...] = ()
    threads: int = Field(default=2, ge=1)
    iterations: int = Field(default=2, ge=1)
    restart: Literal["base", "previous"] = "base"
    data: DataConfig
    passages: PassagesConfig = PassagesConfig()
    encoder: EncoderConfig
    index: IndexConfig = IndexConfig()
    agent: AgentConfig
    warm_start: WarmStartConfig = WarmStartConfig()
    ppo: PpoConfig = PpoConfig()
    rollout: RolloutConfig = RolloutConfig()
    labels: LabelsConfig = LabelsConfig()
    contrastive: ContrastiveConfig = ContrastiveConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    workspace: WorkspaceConfig = WorkspaceConfig()
    export: ExportConfig = ExportConfig()

    @field_validator("name")
    @classmethod
    def _name_is_a_folder_below_runs(cls, name: str) -> str:
        if not set(name.split("/")).isdisjoint(("", ".", "..")):
            raise ValueError("expected the name of a folder below runs, such as first_try")
        return name

    @model_validator(mode="after")
    def _sizes_agree(self) -> "RunConfig":
        if self.ppo.rollouts_per_step % self.ppo.minibatch_size:
            raise ValueError(
                f"ppo.rollouts_per_step {self.ppo.rollouts_per_step} is not a multiple of "
                f"ppo.minibatch_size {self.ppo.minibatch_size}; make it one"
            )
        if self.contrastive.batch_size == 1 and self.labels.selection.passages_per_query < 2:
            raise ValueError(
                "contrastive.batch_size 1 with labels.selection.passages_per_query below 2 leaves no negatives"
            )
        return self

    @property
    def folder(self) -> Path:
        """Where this run's files are."""
        return self.runs / self.name


class MiningConfig(Section):
    """Hard negatives from a retriever's ranks, as FlagEmbedding's miner draws them (10-210, 15).

    ``relative_margin`` 0.05 leaves out hits of more than 95 % of the positive's score (NV-Retriever); null none.
    """

    retriever: Literal["encoder", "bm25"] = "encoder"
    negatives: int = Field(default=15, ge=1)
    first_rank: int = Field(default=10, ge=1)
    last_rank: int = Field(default=210, ge=1)
    relative_margin: float | None = Field(default=None, ge=0, lt=1)

    @model_validator(mode="after")
    def _ranks_are_a_range(self) -> "MiningConfig":
        if self.last_rank < self.first_rank:
            raise ValueError(
                f"mining.last_rank {self.last_rank} is before mining.first_rank {self.first_rank}; raise it"
            )
        return self


class RetrieverConfig(Section):
    """Training of a retriever alone, on instances that exist: ``agentic-r train retriever``."""

    name: str
    seed: int = 0
    runs: FilePath = Path("runs")
    threads: int = Field(default=2, ge=1)
    instances: FilePath
    corpus: FilePath | None = None
    dev_instances: FilePath | None = None
    encoder: PretrainedEncoder
    mining: MiningConfig | None = None
    contrastive: ContrastiveConfig = ContrastiveConfig()

    @property
    def folder(self) -> Path:
        """Where this training's files are."""
        return self.runs / self.name


def load_retriever_config(
    path: Path, overrides: tuple[str, ...] = (), *, environment: Mapping[str, str] | None = None
) -> RetrieverConfig:
    """Read, override and check the configuration of a retriever's training; as ``load_config``."""
    return _load(RetrieverConfig, path, overrides, environment)


def load_config(
    path: Path, overrides: tuple[str, ...] = (), *, environment: Mapping[str, str] | None = None
) -> RunConfig:
    """Read, override and check a configuration.

    Args:
        path: A YAML file.
        overrides: ``section.key=value`` strings; the value is read as YAML.
        environment: Where ``${NAME}`` and ``${NAME:-default}`` in paths are looked up; the process's own by default.

    Raises:
        ConfigError: naming the file, the key, what is wrong and what was expected.
    """
    return _load(RunConfig, path, overrides, environment)


def _load(kind: type[_Root], path: Path, overrides: tuple[str, ...], environment: Mapping[str, str] | None) -> _Root:
    tree = _read_tree(path)
    given = {override.partition("=")[0]: override for override in overrides}
    for override in overrides:
        _apply(tree, override)
    try:
        context = {"environment": os.environ if environment is None else environment}
        return kind.model_validate(_without_empty(tree), context=context)
    except ValidationError as error:
        raise ConfigError(describe_mistakes(error, kind, path=str(path), overrides=given)) from None


def load_serve_config(overrides: tuple[str, ...] = ()) -> ServeConfig:
    """Return the server's defaults with ``key=value`` strings over them.

    Raises:
        ConfigError: naming the key, what is wrong and what was expected.
    """
    tree: dict[str, Any] = {}  # Any: as in load_config
    for override in overrides:
        _apply(tree, override)
    try:
        return ServeConfig.model_validate(_without_empty(tree))
    except ValidationError as error:
        given = {override.partition("=")[0]: override for override in overrides}
        raise ConfigError(describe_mistakes(error, ServeConfig, path="serve", overrides=given)) from None


def export_settings(onnx: str, dimensions: Sequence[int]) -> ExportConfig:
    """Return the section ``export`` as the command line gives it: ``fp32,int8`` or ``none``.

    Raises:
        ConfigError: no such graph or dimension.
    """
    names = [] if onnx.strip() in ("", "none") else [name.strip() for name in onnx.split(",")]
    try:
        return ExportConfig.model_validate({"onnx": names, "dimensions": list(dimensions)})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        option = "--onnx" if first["loc"][0] == "onnx" else "--dimension"
        raise ConfigError(f"{option} {first['input']}: {first['msg']}") from None


def environment_key(name: str) -> str:
    """Return the key that an environment variable holds; empty for no name.

    Raises:
        ConfigError: the variable is not set.
    """
    if name and not os.environ.get(name):
        raise ConfigError(f"--api-key-env {name}: not set; set it to the key, or leave the option out")
    return os.environ.get(name, "") if name else ""


def load_workspace(path: Path) -> WorkspaceConfig:
    """Read a preset: a YAML file of workspace settings alone, such as those in ``configs/workspace``.

    Raises:
        ConfigError: naming the file, the key, what is wrong and what was expected.
    """
    try:
        return WorkspaceConfig.model_validate(_without_empty(_read_tree(path)))
    except ValidationError as error:
        raise ConfigError(describe_mistakes(error, WorkspaceConfig, path=str(path), overrides={})) from None


class _Loader(yaml.SafeLoader):
    """A key that stands twice in one section is an error: only the last would count."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # Any: as the base class
        keys = [key for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        for place, key in enumerate(keys):
            if any(key.value == earlier.value for earlier in keys[:place]):
                raise MarkedYAMLError(problem=f"{key.value} stands here a second time", problem_mark=key.start_mark)
        return super().construct_mapping(node, deep=deep)


def _read_tree(path: Path) -> dict[str, Any]:  # Any: a YAML tree, checked right after
    try:
        tree = yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file; give a configuration, such as configs/quickstart.yaml") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror}); give a YAML file that can") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 (byte {error.start + 1}: {error.reason}); save it as UTF-8") from None
    except RecursionError:
        raise ConfigError(f"{path}: nested too deeply; give sections of settings") from None
    except yaml.YAMLError as error:
        raise ConfigError(_yaml_mistake(str(path), error)) from None
    if not isinstance(tree, dict):
        found = "nothing" if tree is None else f"a {type(tree).__name__}"
        raise ConfigError(f"{path}: expected sections of settings, found {found}; see configs/quickstart.yaml")
    return tree


def _yaml_mistake(source: str, error: yaml.YAMLError) -> str:
    if isinstance(error, MarkedYAMLError) and error.problem_mark is not None:
        source, text = (
            f"{source}:{error.problem_mark.line + 1}",
            ", ".join(filter(None, (error.context, error.problem))),
        )
    else:
        text = str(error)
    return f"{source}: not readable as YAML ({' '.join(text.split())}); correct it"


def _without_empty(tree: dict[str, Any]) -> dict[str, Any]:  # Any: as above
    """Leave out keys without a value, such as a section whose lines are all commented out: their defaults hold."""
    kept = {key: value for key, value in tree.items() if value is not None}
    return {key: _without_empty(value) if isinstance(value, dict) else value for key, value in kept.items()}


def _apply(tree: dict[str, Any], override: str) -> None:  # Any: as above
    key, sign, value = override.partition("=")
    if not sign or not all(key.split(".")):
        raise ConfigError(f"--set {override}: expected section.key=value")
    if not value.strip():
        raise ConfigError(f"--set {override}: no value; write {key}=null to go back to the default")
    *parents, last = key.split(".")
    node = tree
    for parent in parents:
        if node.get(parent) is None:  # a section that is not there, or whose lines are all commented out
            node[parent] = {}
        node = node[parent]
        if not isinstance(node, dict):
            raise ConfigError(f"--set {override}: {parent} has no settings below it; see --dry-run for those there are")
    try:
        node[last] = yaml.load(value, Loader=_Loader)
    except RecursionError:
        raise ConfigError(f"--set {override[:80]}: nested too deeply; give a plain value") from None
    except yaml.YAMLError as error:
        raise ConfigError(_yaml_mistake(f"--set {override}", error).replace(":1:", ":", 1)) from None
