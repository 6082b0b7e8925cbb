"""The tiny encoder, trained once a session."""

from pathlib import Path

import pytest
from tiny_export import train_tiny_encoder


@pytest.fixture(scope="session")
def trained(tmp_path_factory) -> Path:
    """An encoder trained for two steps, as in H19."""
    return train_tiny_encoder(tmp_path_factory.mktemp("trained"))
