"""The tiny world as files: documents, questions with gold evidence, and demonstrations of a made-up world.

A run can make the same world by itself (``data: {kind: tiny_world}``); files are for other tools, for reading, and for
``data: {kind: files}``. The seed decides everything. Rows are written one at a time; the world itself is in memory.
"""

import argparse
import sys
from pathlib import Path

from agentic_r.corpus.folder import write_folder
from agentic_r.errors import AgenticRError, ConfigError
from agentic_r.world.build import build_world
from agentic_r.world.questions import ask_questions, demonstrate


def make(folder: Path, *, documents: int, train: int, heldout: int, demonstrations: int, seed: int) -> str:
    """Write the folder; return one line on what is in it.

    Raises:
        ConfigError: the world is too large for its names, or too small for so many questions.
    """
    try:
        world = build_world(seed, num_documents=documents)
        asked = ask_questions(world, num_train=train, num_heldout=heldout)
    except ValueError as error:
        raise ConfigError(f"{error}; choose other numbers") from None
    counts = write_folder(
        folder,
        documents=world.documents,
        questions=[item.question for item in asked],
        demonstrations=demonstrate(world, asked, count=demonstrations) if train else (),
    )
    return counts.line()


def main() -> int:
    """Read the command line, make the world, say what is in it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="folder to write")
    parser.add_argument("--documents", type=int, default=1200, help="(%(default)s)")
    parser.add_argument("--train", type=int, default=400, help="training questions (%(default)s)")
    parser.add_argument("--heldout", type=int, default=150, help="held-out questions (%(default)s)")
    parser.add_argument("--demonstrations", type=int, default=1500, help="(%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="(%(default)s)")
    options = parser.parse_args()
    try:
        line = make(
            options.out,
            documents=options.documents,
            train=options.train,
            heldout=options.heldout,
            demonstrations=options.demonstrations,
            seed=options.seed,
        )
    except AgenticRError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"{options.out}: {line}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
