"""The workspace of one question: which documents it has, and their files where a shell needs them.

Membership is a list that only grows; ``rg`` and ``read`` work on the store's own files as soon as a document is in it.
Files are laid out in a folder only when that is asked for: by hard link, else by a copy that shares its blocks
(reflink), else by a copy of the bytes; links fail across file systems and where a file has as many as it may have.
"""

import contextlib
import errno
import fcntl
import os
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from agentic_r.workspace.store import DocumentStore

__all__ = ["Admission", "LaidOut", "Workspace"]

Means = Literal["link", "reflink", "copy"]

_NO_LINK = (errno.EXDEV, errno.EMLINK, errno.EPERM, errno.EOPNOTSUPP, errno.EACCES)
_FICLONE = 0x40049409  # Linux, <linux/fs.h>
_READ_ONLY = 0o444


@dataclass(frozen=True, slots=True)
class Admission:
    """How many documents an import brought, already had, and could not take because the workspace is full."""

    num_new: int
    num_already: int
    num_refused: int


@dataclass(frozen=True, slots=True)
class LaidOut:
    """How many files each means has made so far."""

    link: int = 0
    reflink: int = 0
    copy: int = 0


class Workspace:
    """Documents in the order of their admission."""

    def __init__(self, store: DocumentStore, *, max_documents: int | None = None) -> None:
        """Begin empty; with ``max_documents``, whatever comes beyond is refused and counted."""
        self._store = store
        self._max_documents = max_documents
        self._members: dict[str, str] = {}
        self._num_laid_out = 0
        self._laid_out = LaidOut()

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, document_id: object) -> bool:
        return document_id in self._members

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    @property
    def laid_out(self) -> LaidOut:
        """How the files were made that ``lay_out`` has made."""
        return self._laid_out

    def admit(self, document_ids: Iterable[str]) -> Admission:
        """Add documents, best first.

        Raises:
            KeyError: the store has no such document.
        """
        num_new = num_already = num_refused = 0
        for document_id in document_ids:
            if document_id in self._members:
                num_already += 1
            elif self._max_documents is not None and len(self._members) >= self._max_documents:
                num_refused += 1
            else:
                self._members[document_id] = self._store.name(document_id)
                num_new += 1
        return Admission(num_new, num_already, num_refused)

    def names(self) -> list[str]:
        """Return the file names in the order in which a shell lists them."""
        return sorted(self._members.values())

    def find(self, path: str) -> str | None:
        """Return the id of the member that ``path`` names, or None."""
        document_id = self._store.find(path)
        return document_id if document_id in self._members else None

    def lay_out(self, folder: Path) -> None:
        """Make the files in ``folder`` of the members that have none there yet.

        Always the same folder for one workspace; files in it that a killed session left are kept where they are
        whole.

        Raises:
            OSError: a document's file is gone, or the folder cannot be written.
        """
        folder.mkdir(parents=True, exist_ok=True)
        counts = {"link": self._laid_out.link, "reflink": self._laid_out.reflink, "copy": self._laid_out.copy}
        names = list(self._members.values())[self._num_laid_out :]
        source = os.open(self._store.documents_folder, os.O_RDONLY | os.O_DIRECTORY)
        target = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            for name in names:
                counts[_lay_out_file(name, source, target)] += 1
                self._num_laid_out += 1
        finally:
            os.close(source)
            os.close(target)
            self._laid_out = LaidOut(**counts)


def _lay_out_file(name: str, source: int, target: int) -> Means:
    try:
        os.link(name, name, src_dir_fd=source, dst_dir_fd=target)
    except FileExistsError:
        if os.path.samestat(os.stat(name, dir_fd=source), os.stat(name, dir_fd=target, follow_symlinks=False)):
            return "link"
        os.unlink(name, dir_fd=target)  # a copy, perhaps half made, by a session that is no more
        return _lay_out_file(name, source, target)
    except OSError as error:
        if error.errno not in _NO_LINK:
            raise
        return _copy_file(name, source, target)
    return "link"


def _copy_file(name: str, source: int, target: int) -> Means:
    part = name + ".part"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(part, dir_fd=target)  # of a session that was killed: read-only, so it cannot be written again
    read = os.open(name, os.O_RDONLY, dir_fd=source)
    write = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _READ_ONLY, dir_fd=target)
    with open(read, "rb") as original, open(write, "wb") as copy:  # noqa: PTH123 (these are descriptors, not paths)
        means = _clone(original.fileno(), copy.fileno())
        if means == "copy":
            shutil.copyfileobj(original, copy)
    os.rename(part, name, src_dir_fd=target, dst_dir_fd=target)
    return means


def _clone(source: int, target: int) -> Means:
    try:
        fcntl.ioctl(target, _FICLONE, source)
    except OSError:  # another file system, one that shares no blocks, or no Linux: the bytes are copied
        return "copy"
    return "reflink"
