"""Replies kept on disk, so that none is ever paid for twice.

One line a reply, written and synced the moment it arrives; a line half-written by a killed process is cut off.
The key is the judge's name together with the hash of the whole prompt: another model, another word
in a template or another text of a passage asks anew. Calls that failed are not kept.
"""

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentic_r.artifacts.fingerprint import fingerprint_strings
from agentic_r.artifacts.jsonl import JsonObject, read_jsonl
from agentic_r.artifacts.records import from_json
from agentic_r.protocols import ChatModel
from agentic_r.types import Reply

__all__ = ["CachedChat", "KeptReply"]


@dataclass(frozen=True, slots=True)
class KeptReply:
    """A line of the file: who was asked (``judge``), with which templates and whole prompt (hashes), what came."""

    judge: str
    templates: str
    prompt: str
    text: str
    finish: str
    prompt_tokens: int | None
    completion_tokens: int | None


class CachedChat:
    """A chat model that asks the one inside only what was not answered before."""

    def __init__(self, chat: ChatModel, path: Path, *, templates: str = "") -> None:
        """Wrap ``chat``; ``path`` is the file of replies, ``templates`` the hash of the prompts' templates."""
        self._chat = chat
        self._path = path
        self._templates = templates
        self._replies: dict[str, Reply] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        _cut_half_line(path)
        if path.exists():
            for number, value in enumerate(read_jsonl(path), start=1):
                kept = from_json(KeptReply, value, where=f"{path}:{number}")
                if kept.judge == chat.name:
                    self._replies[kept.prompt] = _as_reply(kept)

    @property
    def name(self) -> str:
        """The model's identity and that of the templates."""
        return f"{self._chat.name} prompts={self._templates}" if self._templates else self._chat.name

    def key(self, prompt: str) -> str:
        """Return the hash under which the reply to ``prompt`` is kept."""
        return fingerprint_strings([prompt])

    def num_missing(self, prompts: Sequence[str]) -> int:
        """Return how many different prompts would be asked now."""
        return len({self.key(prompt) for prompt in prompts} - self._replies.keys())

    def complete(self, prompts: Sequence[str], *, arrived: Callable[[int, Reply], None] | None = None) -> list[Reply]:
        """One reply a prompt, in order; equal prompts are asked once."""
        keys = [self.key(prompt) for prompt in prompts]
        missing = {key: prompt for key, prompt in zip(keys, prompts, strict=True) if key not in self._replies}
        order = list(missing)
        failed: dict[str, Reply] = {}
        with self._path.open("a", encoding="utf-8", newline="\n") as file:

            def keep(number: int, reply: Reply) -> None:
                if reply.text is None:
                    failed[order[number]] = reply
                    return
                self._replies[order[number]] = reply
                file.write(json.dumps(self._line(order[number], reply), ensure_ascii=False) + "\n")
                file.flush()
                os.fsync(file.fileno())

            if order:
                self._chat.complete(list(missing.values()), arrived=keep)
        replies = [failed[key] if key in failed else self._replies[key] for key in keys]
        for number, reply in enumerate(replies):
            if arrived is not None:
                arrived(number, reply)
        return replies

    def _line(self, key: str, reply: Reply) -> JsonObject:
        return {
            "judge": self._chat.name,
            "templates": self._templates,
            "prompt": key,
            "text": reply.text,
            "finish": reply.finish,
            "prompt_tokens": reply.prompt_tokens,
            "completion_tokens": reply.completion_tokens,
        }


def _as_reply(kept: KeptReply) -> Reply:
    return Reply(
        text=kept.text,
        finish="length" if kept.finish == "length" else "stop",
        prompt_tokens=kept.prompt_tokens,
        completion_tokens=kept.completion_tokens,
    )


def _cut_half_line(path: Path) -> None:
    if not path.exists():
        return
    with path.open("r+b") as file:
        content = file.read()
        file.truncate(content.rfind(b"\n") + 1)
