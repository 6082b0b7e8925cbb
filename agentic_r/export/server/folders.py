"""Which folders are served: an export alone, or a run's export with its index and passages.

Owns how a folder that the user names becomes paths. Imports nothing heavy; what the folders hold is ``served.py``'s.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from agentic_r.errors import ConfigError

__all__ = ["ServedFolders", "find_folders"]

_ITERATION = re.compile(r"iter-(\d+)")
_ENCODER_FILE, _INDEX_FILE, _PASSAGES_FILE = "modules.json", "index.json", "passages.jsonl"


@dataclass(frozen=True, slots=True)
class ServedFolders:
    """``index`` and ``corpus`` are both there, or neither: then only vectors are served."""

    name: str
    encoder: Path
    index: Path | None
    corpus: Path | None


def find_folders(
    folder: Path, *, index: Path | None = None, corpus: Path | None = None, name: str | None = None
) -> ServedFolders:
    """Find what belongs together.

    Args:
        folder: A run (its export, its last iteration's index and its corpus are taken), a run's ``export`` folder or
            the encoder's own: with these two only what is given here is searched.
        index: A dense index, instead of the run's.
        corpus: The corpus folder whose passages the index holds, instead of the run's.
        name: What clients call it; by default the run's name, or the folder's.

    Raises:
        ConfigError: a folder is missing or is not what it should be, or an index has no corpus.
    """
    if not folder.is_dir():
        raise ConfigError(f"{folder}: no such folder; give a run's folder, such as runs/quickstart, or an export's")
    is_run = (folder / "export" / "encoder" / _ENCODER_FILE).is_file()
    if is_run:
        index = index or _last_index(folder)
        corpus = corpus or (folder / "corpus" if index is not None else None)
    encoder = _encoder(folder)
    if (index is None) != (corpus is None):
        given, lacking = ("--corpus", "--index") if index is None else ("--index", "--corpus")
        raise ConfigError(f"{given} without {lacking}: an index holds ids and its corpus their texts; give both")
    _expect(index, _INDEX_FILE, "a finished dense index, such as runs/quickstart/iter-2/index/vectors")
    _expect(corpus, _PASSAGES_FILE, "a finished corpus, such as runs/quickstart/corpus")
    return ServedFolders(name or _name(folder, encoder), encoder, index, corpus)


def _encoder(folder: Path) -> Path:
    for candidate in (folder / "export" / "encoder", folder / "encoder", folder):
        if (candidate / _ENCODER_FILE).is_file():
            return candidate
    raise ConfigError(f"{folder}: holds no exported encoder; finish the run first, or give the export's folder")


def _last_index(run: Path) -> Path | None:
    """Return where the last retriever's index is, or should be; None where the run has no index at all."""
    numbers = [int(found[1]) for path in run.iterdir() if (found := _ITERATION.fullmatch(path.name))]
    folders = [run / f"iter-{number}" for number in sorted(numbers, reverse=True)]
    finished = [folder for folder in folders if (folder / "index" / "vectors" / _INDEX_FILE).is_file()]
    trained = [folder for folder in folders if (folder / "retriever" / "encoder").is_dir()]
    return (trained or finished)[0] / "index" / "vectors" if finished else None


def _expect(folder: Path | None, file: str, wanted: str) -> None:
    if folder is not None and not (folder / file).is_file():
        raise ConfigError(f"{folder}: {file} is not there; give {wanted}")


def _name(folder: Path, encoder: Path) -> str:
    """Return the run's name where the encoder lies in one, otherwise the folder's own."""
    whole = encoder.resolve()
    inside_run = (whole.name, whole.parent.name) == ("encoder", "export")
    return whole.parents[1].name if inside_run else folder.resolve().name
