"""Environment variables inside a configuration's paths: ``${NAME}`` and ``${NAME:-default}``.

Owns their syntax. Which settings are paths is ``config``'s; the environment is the caller's.
"""

import re
from collections.abc import Mapping

__all__ = ["expand_variables"]

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^{}]*))?\}")


def expand_variables(text: str, environment: Mapping[str, str]) -> str:
    """Return ``text`` with its variables replaced; as in a shell, an empty one counts as not set.

    What a variable holds is not expanded again.

    Raises:
        ValueError: a variable without a default is not set, or a ``${`` begins none.
    """
    if "${" in _VARIABLE.sub("", text):
        raise ValueError("a ${ begins no variable; write ${NAME} or ${NAME:-default}, with a default without braces")

    def value(found: re.Match[str]) -> str:
        name, default = found.groups()
        held = environment.get(name) or default
        if held is None:
            raise ValueError(f"the environment variable {name} is not set; set it, or write ${{{name}:-default}}")
        return held

    return _VARIABLE.sub(value, text)
