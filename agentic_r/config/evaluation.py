"""The configuration of what is measured on held-out questions, and of the workspace's tools."""

from typing import Literal

from pydantic import Field, PositiveInt, model_validator

from agentic_r.config.section import Section

__all__ = ["SYSTEMS", "EvaluationConfig", "OpeningConfig", "SearchConfig", "SystemName", "WorkspaceConfig"]


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
