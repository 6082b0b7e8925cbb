"""``python -m agentic_r`` is the command line."""

from agentic_r.cli import main

if __name__ == "__main__":
    main()
