"""The exception tree.

    AgenticRError            the user's mistake: one line (what, where, what to do), exit code 2
    ├── ConfigError          a value in the configuration or on the command line
    ├── DataError            a document, question or record that cannot be used as it stands
    ├── StaleError           a finished stage was made from other inputs or settings
    ├── FingerprintError     two artefacts that must belong together do not
    ├── ParityError          an exported encoder does not give the vectors of the trained one
    ├── MissingPartError     an optional package or program that this run needs is not installed
    └── CollapseError        training stopped itself; the text says why and where the best checkpoint is

    ToolFailure              a tool call (search, endpoint, ripgrep) failed; recorded, never scored

A caller's bug is ``ValueError``; ``assert`` states our own invariants.
"""

__all__ = [
    "AgenticRError",
    "CollapseError",
    "ConfigError",
    "DataError",
    "FingerprintError",
    "MissingPartError",
    "ParityError",
    "StaleError",
    "ToolFailure",
]


class AgenticRError(Exception):
    """The user's mistake: its text is one line that says what is wrong, where, and what to do."""


class ConfigError(AgenticRError):
    """A value in the configuration or on the command line is wrong."""


class DataError(AgenticRError):
    """A document, question or record cannot be used as it stands."""


class StaleError(AgenticRError):
    """A finished stage was made from other inputs or settings than the present ones."""


class FingerprintError(AgenticRError):
    """Two artefacts that must belong together (encoder and index, say) do not."""


class ParityError(AgenticRError):
    """An exported encoder does not give the vectors of the trained one; the text names the cause."""


class MissingPartError(AgenticRError):
    """An optional package or program that this run needs is not installed."""


class CollapseError(AgenticRError):
    """Training stopped itself; the text gives the reason and the best checkpoint."""


class ToolFailure(Exception):
    """A tool call failed: neither an empty result nor a wrong answer."""
