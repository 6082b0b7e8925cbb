"""agentic-r: train a retriever for agentic search and prove that it helps."""

__version__ = "0.1.0"
