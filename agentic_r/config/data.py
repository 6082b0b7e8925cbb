"""The configuration of documents, questions and passages."""

from typing import Annotated, Literal

from pydantic import Field

from agentic_r.config.section import FilePath, Section

__all__ = [
    "DataConfig",
    "FilesData",
    "PassagesConfig",
    "TinyWorldData",
]


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
