"""The heap of a training process: chosen once, and never against the user."""

import subprocess
import sys

import pytest

from agentic_r.__main__ import _GPU
from agentic_r.heap import compact_heap, give_back_free_heap, name_of_libc

GLIBC = "glibc 2.36"


def test_glibc_is_told_to_keep_no_caches_of_small_blocks_and_onednn_few_programs():
    added = compact_heap({}, libc=GLIBC)
    settings = "glibc.malloc.tcache_count=0:glibc.malloc.mxfast=0"
    assert added == {"GLIBC_TUNABLES": settings, "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "64"}


def test_the_number_of_programs_that_the_user_chose_stays():
    assert list(compact_heap({"ONEDNN_PRIMITIVE_CACHE_CAPACITY": "8"}, libc=GLIBC)) == ["GLIBC_TUNABLES"]


def test_a_process_that_has_it_is_not_started_again():
    assert compact_heap(compact_heap({}, libc=GLIBC), libc=GLIBC) == {}


@pytest.mark.parametrize(
    "environment", [{"GLIBC_TUNABLES": "glibc.malloc.tcache_count=3"}, {"LD_PRELOAD": "libjemalloc.so.2"}]
)
def test_what_the_user_chose_stays(environment):
    assert compact_heap(environment, libc=GLIBC) == {}


def test_other_tunables_stay_beside_it():
    added = compact_heap({"GLIBC_TUNABLES": "glibc.elision.enable=0"}, libc=GLIBC)
    assert added["GLIBC_TUNABLES"].startswith("glibc.elision.enable=0:glibc.malloc.")


def test_another_libc_is_left_alone():
    assert compact_heap({}, libc="") == {}


@pytest.mark.parametrize("error", [OSError(22, "Invalid argument"), ValueError("no such name")])
def test_a_libc_that_does_not_tell_has_no_name(monkeypatch, error):
    def refuse(name):
        raise error

    monkeypatch.setattr("os.confstr", refuse)
    assert name_of_libc() == ""
    give_back_free_heap()  # nor is it asked for anything


def restarted(*arguments: str, **environment: str) -> bool:
    """Say whether the command line starts again for these arguments; it ends with the mistake in them either way."""
    script = "import os; os.execve = lambda *given: print('again'); from agentic_r.__main__ import start; start()"
    command = [sys.executable, "-c", script, *arguments]
    done = subprocess.run(
        command, env={"PYTHONPATH": ":".join(sys.path), **environment}, capture_output=True, text=True
    )
    return done.stdout.startswith("again")


@pytest.mark.skipif(not name_of_libc().startswith("glibc") or _GPU.exists(), reason="needs glibc, and no GPU")
def test_only_trainings_start_again_and_only_once():
    assert restarted("run", "nowhere.yaml")
    assert restarted("train", "retriever", "nowhere.yaml")
    assert not restarted("run", "nowhere.yaml", "--dry-run")
    assert not restarted("check", "nowhere.yaml")
    assert not restarted("run", "nowhere.yaml", AGENTIC_R_STARTED_AGAIN="1")


@pytest.mark.skipif(not name_of_libc().startswith("glibc"), reason="needs glibc")
def test_a_process_is_started_again_once_with_the_arguments_it_had():
    script = (
        "import os, sys; print(os.getpid(), sys.argv[1], os.environ.get('GLIBC_TUNABLES', ''), flush=True)\n"
        "from agentic_r.heap import restart_with_compact_heap; restart_with_compact_heap()\n"
    )
    environment = {"PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", script, "an argument"], env=environment, capture_output=True, text=True, check=True
    )
    first, second = done.stdout.splitlines()  # not a third: it starts again once
    assert "tcache_count=0" not in first
    assert second == f"{first}glibc.malloc.tcache_count=0:glibc.malloc.mxfast=0"
