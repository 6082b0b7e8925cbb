"""The scripts in ``data/``, and the real data where it is there."""

import json

import pytest
from data_scripts import ROOT, load_script


@pytest.fixture
def script():
    return load_script


@pytest.fixture
def shared_data():
    folder = ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("the real data is not next to the repository")
    return folder


@pytest.fixture
def write_rows():
    def write(path, rows):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
        return path

    return write
