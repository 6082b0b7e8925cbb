"""What every part of the configuration is made of: a frozen section, and paths with variables in them."""

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationInfo

from agentic_r.variables import expand_variables

__all__ = [
    "FilePath",
    "PathText",
    "Section",
]


class Section(BaseModel):
    """A frozen part of the tree in which an unknown key, and a number that is none, is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


def _expand(value: object, info: ValidationInfo) -> object:
    environment = (info.context or {}).get("environment")
    return expand_variables(value, environment) if isinstance(value, str) and environment is not None else value


FilePath = Annotated[Path, BeforeValidator(_expand)]  # a path in which load_config expands ${NAME} and ${NAME:-default}
PathText = Annotated[str, BeforeValidator(_expand)]  # the same, where the text may also be package:<name>
