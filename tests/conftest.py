"""Shared by all tests: this folder is on the import path (for ``fakes``), torch keeps to one thread."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
