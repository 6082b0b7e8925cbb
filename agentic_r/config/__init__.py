"""The whole configuration tree: every setting once, with its default and where it comes from.

One YAML file is read whole; unknown keys are errors. Imports no torch, so that ``--help``, ``check``
and every configuration error answer at once. Published values: ``configs/paper/``.
"""

from agentic_r.config.agent import (
    AgentConfig,
    LanguageModelConfig,
    PpoConfig,
    PretrainedLanguageModel,
    RolloutConfig,
    TinyLanguageModel,
    WarmStartConfig,
)
from agentic_r.config.contrastive import ContrastiveConfig, LoraConfig, MiningConfig
from agentic_r.config.data import DataConfig, FilesData, PassagesConfig, TinyWorldData
from agentic_r.config.encoder import Bm25Config, EncoderConfig, IndexConfig, PretrainedEncoder, ScratchEncoder
from agentic_r.config.evaluation import (
    SYSTEMS,
    EvaluationConfig,
    OpeningConfig,
    SearchConfig,
    SystemName,
    WorkspaceConfig,
)
from agentic_r.config.giving import ExportConfig, OnnxPrecision, ServeConfig
from agentic_r.config.labels import (
    CorrectnessConfig,
    EndpointJudge,
    JudgeConfig,
    LabelsConfig,
    RuleJudge,
    SelectionConfig,
)
from agentic_r.config.reading import (
    environment_key,
    export_settings,
    load_config,
    load_retriever_config,
    load_serve_config,
    load_workspace,
)
from agentic_r.config.roots import RetrieverConfig, RunConfig
from agentic_r.config.section import Section

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
