"""The export folder: what sentence-transformers and the servers load from a local path, whole or not there at all.

Owns its completeness (every module listed has its folder and configuration, prompts, lengths), the card's place in it,
and which folders make way for it. The form of its files is ``layout.py``'s, that it gives the right vectors
``parity.py``'s to prove.
"""

import shutil
from pathlib import Path

from agentic_r.artifacts.jsonl import write_text_atomic
from agentic_r.config import ExportConfig
from agentic_r.encoder.bi_encoder import BiEncoder
from agentic_r.encoder.settings import SETTINGS_FILE
from agentic_r.errors import ConfigError, ParityError
from agentic_r.export.card import Card, render_card
from agentic_r.export.layout import TRANSFORMER_FILE, read_json, write_portable_layout
from agentic_r.export.parity_report import REPORT_FILE

__all__ = ["check_folder", "check_place", "export_encoder", "part_folder", "put_in_place", "write_folder"]

_UNPROVED = "export-in-progress"  # a file, the first in a part folder: all beside it was written here


def export_encoder(encoder_path: Path, folder: Path, *, card: Card) -> Path:
    """Write an encoder as a folder for others, without proof; an earlier, proved export in its place is replaced.

    Args:
        encoder_path: A folder that ``BiEncoder.save`` wrote.
        folder: The export; written beside and renamed.
        card: What its README says beyond what the encoder knows.

    Returns:
        ``folder``, absolute.

    Raises:
        ConfigError: ``encoder_path`` is no saved encoder, or ``folder`` may not be replaced (``check_place``).
    """
    place = check_place(folder, source=encoder_path)
    encoder = BiEncoder.load(encoder_path, dtype="float32")
    write_folder(encoder, part_folder(place), card=card)
    return put_in_place(place)


def check_place(folder: Path, *, source: Path) -> Path:
    """Return ``folder`` as an absolute path, if an export may be written there.

    A trained checkpoint has all files of an export but the proof, so only a folder with a proof makes way for one; its
    part folder makes way where this program began it.

    Raises:
        ConfigError: ``folder`` is a file, holds files that are not an export, or would take ``source`` with it.
    """
    place = folder.resolve()
    if not place.name:
        raise ConfigError(f"{folder}: a folder without a name, and an export is written beside it; give another")
    if place in (source.resolve(), *source.resolve().parents):
        raise ConfigError(f"{folder}: holds the encoder that is to be exported; give another folder")
    for taken in (place, part_folder(place)):
        if taken.exists() and not taken.is_dir():
            raise ConfigError(f"{taken}: a file, and an export is a folder; give another name")
        if taken.exists() and any(taken.iterdir()) and not _is_export(taken):
            raise ConfigError(
                f"{taken}: holds files that are not an export (no {REPORT_FILE}); give another folder, or empty it"
            )
    return place


def _is_export(folder: Path) -> bool:
    return (folder / _UNPROVED).is_file() or all((folder / name).is_file() for name in (SETTINGS_FILE, REPORT_FILE))


def part_folder(folder: Path) -> Path:
    """Where an export is written before it is whole and proved."""
    return folder.with_name(folder.name + ".part")


def write_folder(encoder: BiEncoder, part: Path, *, card: Card, config: ExportConfig | None = None) -> None:
    """Write the checkpoint, its configuration and its card into ``part``; what was there before is removed.

    Args:
        encoder: With float32 weights.
        part: The folder, from ``part_folder``.
        card: What its README says beyond what the encoder knows.
        config: Which graphs will be written beside the checkpoint, for the card; by default none.
    """
    if part.exists():
        shutil.rmtree(part)
    part.mkdir(parents=True)
    (part / _UNPROVED).touch()
    encoder.save(part)
    write_portable_layout(part, encoder.model)
    write_text_atomic(part / "README.md", render_card(card, encoder, config=config or ExportConfig()))
    check_folder(part)


def put_in_place(folder: Path) -> Path:
    """Give a finished part folder its name; an earlier export makes way. Returns ``folder``, of ``check_place``."""
    if folder.exists():
        shutil.rmtree(folder)
    part_folder(folder).replace(folder)
    (folder / _UNPROVED).unlink()
    return folder


def check_folder(folder: Path) -> None:
    """Check that every module that ``modules.json`` lists is there with its configuration.

    Raises:
        ParityError: naming what is missing.
    """
    modules = read_json(folder / "modules.json")
    if not isinstance(modules, list) or not modules:
        raise ParityError(f"{folder}: modules.json lists no module; export again")
    for module in modules:
        place, kind = str(module["path"]), str(module["type"]).rpartition(".")[2]
        config = folder / place / ("config.json" if place else TRANSFORMER_FILE)
        if not config.exists():
            raise ParityError(f"{folder}: modules.json lists {kind}, but {config} is missing; export again")
    for name in ("config.json", "tokenizer.json", "config_sentence_transformers.json", SETTINGS_FILE):
        if not (folder / name).exists():
            raise ParityError(f"{folder}: {name} is missing; export again")
    if not any(folder.glob("*.safetensors")):
        raise ParityError(f"{folder}: there are no weights (*.safetensors); export again")
