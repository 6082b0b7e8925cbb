"""How a command ends: what it says, and its exit code.

0 done, 1 finished with failures, 2 the user's mistake (one line on standard error), 130 interrupted. The command line
and the scripts in ``train/`` share it.
"""

import errno
import sys
from collections.abc import Callable
from typing import NoReturn, cast

import typer

from agentic_r.cli.options import json_line
from agentic_r.errors import AgenticRError

__all__ = ["end_after", "end_script"]

# Every mistake on the command line; a cast, since typer has no public name for the class.
_UsageError = cast("type[typer.BadParameter]", typer.BadParameter.__mro__[1])
_INTERRUPTED = 130
_FULL = (errno.ENOSPC, errno.EDQUOT)


def end_after(work: Callable[[], int | None]) -> NoReturn:
    """Do the work and end with the code it returns (None: 0), or as its mistake deserves.

    A mistake is one line on standard error and, with ``--json``, one object with ``error`` on standard output.
    """
    try:
        code = work()
    except AgenticRError as error:
        _refuse(str(error))
    except _UsageError as error:
        text = error.format_message()
        _refuse(f"{text.rstrip('.')}; see agentic-r --help" if text else "")
    except OSError as error:
        if error.filename is None and error.errno not in _FULL:
            raise  # not about a file of the user's
        where = error.filename or "writing"
        _refuse(f"{where}: {error.strerror}; give a path that can be used, make room, or mend its permissions")
    except (KeyboardInterrupt, typer.Abort):
        code = _INTERRUPTED
    if code == _INTERRUPTED:
        start = "\n" if sys.stderr.isatty() else ""  # below the live line
        sys.stderr.write(f"{start}interrupted; run the same command again to go on\n")
    sys.exit(code or 0)


def end_script(usage: str, work: Callable[[list[str]], int], *, max_arguments: int) -> NoReturn:
    """Give a script's arguments to its work, which returns how many records failed, and end.

    Args:
        usage: What comes after "usage:", where the number of arguments is not 1 to ``max_arguments``.
        work: Takes the arguments.
        max_arguments: The first is always needed.
    """

    def worked() -> int:
        if not 1 <= len(sys.argv) - 1 <= max_arguments:
            _refuse(f"usage: {usage}")
        num_failed = work(sys.argv[1:])
        if num_failed:
            sys.stderr.write(f"{num_failed} records failed; the reasons are in the report and the manifests\n")
        return int(num_failed > 0)

    end_after(worked)


def _refuse(text: str) -> NoReturn:
    """End with the user's mistake; without a text, the help that was printed says it all."""
    line = " ".join(text.split())
    if line:
        sys.stderr.write(f"error: {line}\n")
        if "--json" in sys.argv[1:]:
            sys.stdout.write(json_line({"error": line}) + "\n")
    sys.exit(2)
