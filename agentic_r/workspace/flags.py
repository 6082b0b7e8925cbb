"""Which of ripgrep's flags an ordered scan takes, and why it refuses the others.

A flag is allowed where cutting the list of files into shards leaves its meaning as it is. Refused are those that would
decide what the runtime decides: the order, the documents, the form of the output, how bytes are read, how long a
pattern may take. Every refusal is a sentence that says which of these it is.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

__all__ = ["FlagError", "OutputForm", "ScanFlags", "allowed_flags", "parse_flags"]

OutputForm = Literal["lines", "names", "counts"]

_PLAIN = {
    "-i": "--ignore-case",
    "-s": "--case-sensitive",
    "-S": "--smart-case",
    "-w": "--word-regexp",
    "-x": "--line-regexp",
    "-F": "--fixed-strings",
    "-v": "--invert-match",
}
_FORMS: dict[str, OutputForm] = {"--files-with-matches": "names", "--count": "counts"}
_FORM_NAMES = {"-l": "--files-with-matches", "-c": "--count"}
_NUMBERS = {"-m": "--max-count", "-A": "--after-context", "-B": "--before-context", "-C": "--context"}
_ALWAYS = {"-n": "--line-number", "-H": "--with-filename", "-a": "--text"}  # so in every scan: taken, without effect
_SHORT = {**_PLAIN, **_FORM_NAMES, **_NUMBERS, **_ALWAYS}
_LONG = set(_SHORT.values())
_MAX_CONTEXT = 100  # lines; more is what `read` is for

_REASONS: tuple[tuple[str, str], ...] = (
    ("-j --threads --sort --sortr --sort-files", "the order of a scan is that of its scope"),
    (
        "-g --glob --iglob -t --type -T --type-not --files -u --unrestricted --hidden -. --no-ignore --ignore-file -d "
        "--max-depth -L --follow --max-filesize --one-file-system",
        "which documents are searched is decided by the scope",
    ),
    ("-P --pcre2 --engine --auto-hybrid-regex", "only patterns whose time grows with the text alone are run"),
    ("-U --multiline --multiline-dotall --null-data", "a match is a line"),
    ("-z --search-zip --pre --pre-glob -E --encoding --binary --crlf", "bytes are searched as they stand"),
    ("-e --regexp -f --file", "a scan has one pattern, given apart from its flags"),
    (
        "--json --stats -o --only-matching -r --replace -p --pretty --color --colors --heading -N --no-line-number -0 "
        "--null -b --byte-offset --column --vimgrep -M --max-columns --count-matches --files-without-match -q --quiet "
        "--passthru --trim -I --no-filename --context-separator",
        "the form of the output is the runtime's",
    ),
)


class FlagError(ValueError):
    """A flag is refused; the text is the sentence for whoever asked."""


@dataclass(frozen=True, slots=True)
class ScanFlags:
    """Flags that were understood. ``switches`` go to ripgrep as they stand; the caps are in lines, a document each."""

    switches: tuple[str, ...] = ()
    form: OutputForm = "lines"
    max_count: int | None = None
    before: int = 0
    after: int = 0

    @property
    def has_context(self) -> bool:
        """Whether lines around matches are printed, groups of them divided by ``--``."""
        return self.form == "lines" and bool(self.before or self.after)

    def arguments(self) -> list[str]:
        """Return the flags for ripgrep's command line."""
        made = list(self.switches)
        if self.max_count is not None:
            made.append(f"--max-count={self.max_count}")
        made += [name for name, form in _FORMS.items() if form == self.form]
        if self.before or self.after:  # beside -l and -c too: there they change what -m counts
            made += [f"--before-context={self.before}", f"--after-context={self.after}"]
        return made


def allowed_flags() -> str:
    """Return the list of allowed flags, for people and models."""
    shown = {**_PLAIN, **_FORM_NAMES}
    named = [f"{short} ({long})" for short, long in shown.items()]
    return ", ".join([*named, *(f"{short} N ({long})" for short, long in _NUMBERS.items())])


def parse_flags(flags: Sequence[str]) -> ScanFlags:
    """Read flags as ripgrep would: ``-i``, ``-iw``, ``-A 2``, ``-A2``, ``--after-context=2``.

    Raises:
        FlagError: a flag is not allowed, unknown, or its number is none.
    """
    switches: list[str] = []
    forms: dict[str, OutputForm] = {}
    numbers: dict[str, int] = {}
    waiting = list(_split(flags))
    while waiting:
        flag, value = waiting.pop(0)
        name = _SHORT.get(flag, flag)
        if name in _NUMBERS.values():
            if value is None and waiting:
                value, _ = waiting.pop(0)
            numbers[name] = _number(flag, value)
        elif name not in _LONG or value is not None:
            raise FlagError(_refusal(flag))
        elif name in _FORMS:
            forms[name] = _FORMS[name]
        elif name in _PLAIN.values():
            switches.append(name)
    if len(forms) > 1:
        raise FlagError("-l and -c exclude one another; ask for names or for counts.")
    around = numbers.get("--context", 0)
    return ScanFlags(
        switches=tuple(switches),
        form=next(iter(forms.values()), "lines"),
        max_count=numbers.get("--max-count"),
        before=numbers.get("--before-context", around),
        after=numbers.get("--after-context", around),
    )


def _split(flags: Sequence[str]) -> list[tuple[str, str | None]]:
    """Cut ``--name=value``, ``-A2`` and ``-iw`` into (flag, value) pairs; anything else stays whole."""
    pairs: list[tuple[str, str | None]] = []
    for flag in flags:
        if flag.startswith("--"):
            name, equals, value = flag.partition("=")
            pairs.append((name, value if equals else None))
            continue
        letters = flag[1:] if flag.startswith("-") else ""
        if not letters:
            pairs.append((flag, None))
        for place, letter in enumerate(letters):
            rest = letters[place + 1 :]
            if f"-{letter}" in _NUMBERS and rest:
                pairs.append((f"-{letter}", rest.removeprefix("=")))
                break
            if f"-{letter}" not in _SHORT:
                pairs.append((f"-{letter}", None))
                break
            pairs.append((f"-{letter}", None))
    return pairs


def _number(flag: str, value: str | None) -> int:
    name = _SHORT.get(flag, flag)
    low, high = (1, 1_000_000) if name == "--max-count" else (0, _MAX_CONTEXT)
    if value is None or not (value.isascii() and value.isdigit()) or not low <= int(value) <= high:
        raise FlagError(f"flag {flag} needs a number from {low} to {high}, not {value or 'nothing'}.")
    return int(value)


def _refusal(flag: str) -> str:
    reason = next((why for names, why in _REASONS if flag in names.split()), "")
    why = f"it is refused because {reason}" if reason else "it is no flag of a scan"
    return f"flag {flag or 'without a name'}: {why}; allowed are {allowed_flags()}."
