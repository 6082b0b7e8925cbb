"""A stage's folder: its manifest, its refusal of strangers, its unfinished work.

``manifest.json`` is written last and atomically. A folder without one is unfinished work to go on with
(if it was begun with the same fingerprint: ``begun.json``) or, begun with another, to be set aside. A folder whose
manifest has another fingerprint is stale: the run names what changed and refuses to mix. A folder that no stage
began is somebody's own: it is never touched.
"""

import itertools
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from agentic_r import __version__
from agentic_r.artifacts.fingerprint import fingerprint_value
from agentic_r.artifacts.jsonl import write_json
from agentic_r.errors import StaleError

__all__ = ["Manifest", "StageFolder", "StageIdentity", "open_stage", "read_manifest"]

_MANIFEST = "manifest.json"
_BEGUN = "begun.json"
_PACKAGES = (
    "torch",
    "transformers",
    "tokenizers",
    "trl",
    "accelerate",
    "sentence-transformers",
    "datasets",
    "faiss-cpu",
    "bm25s",
    "numpy",
)
_MAX_SHOWN = 4  # differences named in one line


@dataclass(frozen=True, slots=True)
class StageIdentity:
    """What decides a stage's result: its name and schema, its inputs' fingerprints, settings (JSON values), seed."""

    name: str
    schema: int
    inputs: Mapping[str, str]
    settings: Mapping[str, object]
    seed: int

    @property
    def fingerprint(self) -> str:
        """Hash of everything above; the code version is recorded in the manifest, not hashed."""
        return fingerprint_value(self.parts())

    def parts(self) -> dict[str, object]:
        """Return the identity as one flat JSON object, for comparing and for naming differences."""
        flat: dict[str, object] = {"stage": self.name, "schema": self.schema, "seed": self.seed}
        flat.update({f"input {key}": value for key, value in self.inputs.items()})
        flat.update({f"setting {key}": value for key, value in self.settings.items()})
        return flat


class Manifest(BaseModel):
    """The record of a finished stage; ``seconds`` are those of the last sitting, not of killed ones before it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    fingerprint: str
    identity: dict[str, object]
    counts: dict[str, int]
    metrics: dict[str, float]
    skipped: dict[str, int]
    failed: dict[str, int]
    seconds: float
    code_version: str
    python: str
    packages: dict[str, str]


class _Begun(BaseModel):
    """What an unfinished folder says of itself."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    fingerprint: str


@dataclass(slots=True)
class StageFolder:
    """An open stage. ``counts``, ``skipped``, ``failed`` (by reason) and ``metrics`` go into the manifest.

    ``set_aside`` is where unfinished work of another identity went, which stood in its place.
    """

    path: Path
    identity: StageIdentity
    done: bool
    set_aside: Path | None = None
    counts: dict[str, int] = field(default_factory=dict)
    skipped: dict[str, int] = field(default_factory=dict)
    failed: dict[str, int] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)
    started: float = field(default_factory=time.monotonic)

    @property
    def fingerprint(self) -> str:
        """The identity's hash: what later stages name as their input."""
        return self.identity.fingerprint

    def finish(self) -> Manifest:
        """Write the manifest, last and atomically; the stage is done."""
        manifest = Manifest(
            fingerprint=self.fingerprint,
            identity=self.identity.parts(),
            counts=self.counts,
            metrics=self.metrics,
            skipped=self.skipped,
            failed=self.failed,
            seconds=round(time.monotonic() - self.started, 3),
            code_version=__version__,
            python=sys.version.split()[0],
            packages=_installed(),
        )
        write_json(self.path / _MANIFEST, manifest.model_dump())
        self.done = True
        return manifest


def open_stage(path: Path, identity: StageIdentity) -> StageFolder:
    """Open a stage's folder: done, to be continued, or new (unfinished work of another identity is set aside).

    Raises:
        StaleError: the folder holds a finished stage of another identity (names what differs), or files that no
            stage began.
    """
    manifest = read_manifest(path)
    if manifest is not None:
        if manifest.fingerprint != identity.fingerprint:
            raise StaleError(_difference(path, manifest.identity, identity.parts()))
        return StageFolder(
            path=path,
            identity=identity,
            done=True,
            counts=dict(manifest.counts),
            metrics=dict(manifest.metrics),
            skipped=dict(manifest.skipped),
            failed=dict(manifest.failed),
        )
    set_aside = None if _begun_by(path) == identity.fingerprint else _set_aside(path)
    write_json(path / _BEGUN, {"fingerprint": identity.fingerprint})
    return StageFolder(path=path, identity=identity, done=False, set_aside=set_aside)


def read_manifest(path: Path) -> Manifest | None:
    """Return the manifest of a finished stage, or None where there is none.

    Raises:
        StaleError: the file is there but is not a manifest of this schema.
    """
    file = path / _MANIFEST
    try:
        return Manifest.model_validate_json(file.read_bytes())
    except FileNotFoundError:
        return None
    except ValidationError:
        raise StaleError(f"{file}: not a manifest of this version; move {path} away and run again") from None


def _begun_by(path: Path) -> str | None:
    try:
        return _Begun.model_validate_json((path / _BEGUN).read_bytes()).fingerprint
    except FileNotFoundError:
        return None
    except ValidationError:
        return ""  # begun by another version


def _set_aside(path: Path) -> Path | None:
    """Move what an unfinished stage of another identity left to the first free ``<name>.unfinished-N``."""
    if not path.exists():
        return None
    own = {_BEGUN, _BEGUN + ".part"}
    others = [child.name for child in path.iterdir() if child.name not in own]
    if not others:
        return None
    if not (path / _BEGUN).exists():
        raise StaleError(f"{path}: holds {others[0]!r}, which no stage of a run made; use another name or folder")
    places = (path.with_name(f"{path.name}.unfinished-{number}") for number in itertools.count(1))
    free = next(place for place in places if not place.exists())
    path.rename(free)
    return free


def _installed() -> dict[str, str]:
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "absent"
    return found


def _difference(path: Path, before: Mapping[str, object], now: Mapping[str, object]) -> str:
    found = list(_changes(before, now))
    more = f" (and {len(found) - _MAX_SHOWN} more)" if len(found) > _MAX_SHOWN else ""
    shown = "; ".join(found[:_MAX_SHOWN])
    return f"{path} is stale: {shown}{more}; use another name or folder, or delete this one to make it again"


def _changes(old: Mapping[str, object], new: Mapping[str, object], *, section: str = "") -> Iterator[str]:
    """Yield what differs, a value in a section under its full name."""
    for key in {**old, **new}:
        was, is_now = old.get(key), new.get(key)
        if isinstance(was, Mapping) and isinstance(is_now, Mapping):
            yield from _changes(was, is_now, section=f"{section}{key}.")
        elif key not in old:
            yield f"{section}{key} was not set, is now {is_now!r}"
        elif key not in new:
            yield f"{section}{key} was {was!r}, is gone"
        elif fingerprint_value(was) != fingerprint_value(is_now):
            yield f"{section}{key} was {was!r}, is now {is_now!r}"
