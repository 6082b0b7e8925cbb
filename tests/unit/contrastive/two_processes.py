"""Trainings in two processes on CPU: as they are launched by torchrun, under FSDP2, under DeepSpeed.

Run as a script, this file is one of the processes. Accelerate does FSDP and DeepSpeed on GPUs only: here the process
tells it that the group of CPU processes is one of GPUs (FSDP), or starts the group before it (DeepSpeed).
"""

import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from agentic_r.config import ContrastiveConfig
from agentic_r.contrastive.dev import DevSet
from agentic_r.types import Passage, QueryText, TrainingInstance

WORDS = [f"w{number}" for number in range(60)]
CONFIG = ContrastiveConfig(batch_size=4, epochs=1, min_instances=1, save_every=1, learning_rate=1e-3, warmup_ratio=0.0)
DIED = 7

FSDP = {
    "ACCELERATE_USE_FSDP": "true",
    "FSDP_VERSION": "2",
    "FSDP_AUTO_WRAP_POLICY": "TRANSFORMER_BASED_WRAP",
    "FSDP_RESHARD_AFTER_FORWARD": "true",
    "FSDP_STATE_DICT_TYPE": "SHARDED_STATE_DICT",
    "FSDP_CPU_RAM_EFFICIENT_LOADING": "false",
}
DEEPSPEED = {
    "ACCELERATE_USE_DEEPSPEED": "true",
    "ACCELERATE_GRADIENT_ACCUMULATION_STEPS": "1",
    "ACCELERATE_GRADIENT_CLIPPING": "1.0",
    "ACCELERATE_DEEPSPEED_OFFLOAD_OPTIMIZER_DEVICE": "none",
    "ACCELERATE_DEEPSPEED_OFFLOAD_PARAM_DEVICE": "none",
}
LAUNCHES: Mapping[str, Mapping[str, str]] = {
    "torchrun": {"ACCELERATE_USE_CPU": "true"},
    "fsdp2": FSDP | {"ACCELERATE_USE_CPU": "true"},
    "zero1": DEEPSPEED | {"ACCELERATE_DEEPSPEED_ZERO_STAGE": "1"},
    "zero2": DEEPSPEED | {"ACCELERATE_DEEPSPEED_ZERO_STAGE": "2"},
}


def samples() -> tuple[list[TrainingInstance], dict[str, Passage]]:
    """Queries that share passages, a text under two ids, another positive: what masking must see across processes."""
    passages = {
        f"p{number}": Passage(f"p{number}", "d", "", " ".join(WORDS[number : 2 * number + 4])) for number in range(14)
    }
    passages["copy"] = Passage("copy", "d", "", passages["p0"].text.upper())
    instances = [
        TrainingInstance(
            f"i{number}",
            "q",
            "w1 w2",
            f"w{number} w3",
            f"p{number // 2}",
            ("copy", "p12", f"p{number + 6}"),
            other_positives=("p13",) if number == 3 else (),
        )
        for number in range(8)
    ]
    return instances, passages


def dev_set() -> DevSet:
    """Every query finds its own positive, among all passages of different texts."""
    instances, passages = samples()
    del passages["copy"]
    return DevSet(
        queries={item.id: QueryText(item.query, item.question) for item in instances},
        relevant={item.id: (item.positive,) for item in instances},
        pool=tuple(passages.values()),
    )


def free_port() -> str:
    """Return a port of this machine that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def launch(kind: str, base: Path, folder: Path, *, config: ContrastiveConfig = CONFIG, die_after: int = 0) -> list[int]:
    """Train in two processes and return their exit codes.

    Args:
        kind: One of ``LAUNCHES``.
        base: A saved encoder.
        folder: Of the training.
        config: Its settings.
        die_after: The step after which both processes end at once, with code 7.
    """
    given = [kind, str(base), str(folder), config.model_dump_json(), str(die_after)]
    shared = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port(), **LAUNCHES[kind]}
    quiet = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    children = [
        subprocess.Popen(
            [sys.executable, __file__, *given, *(path for path in sys.path if path)],
            env={**os.environ, **shared, **quiet, "RANK": str(rank), "LOCAL_RANK": str(rank)},
        )
        for rank in range(2)
    ]
    return [child.wait() for child in children]


def _prepare(kind: str) -> None:
    """Let accelerate do on CPU what it does on GPUs."""
    from accelerate import PartialState
    from accelerate.utils import DistributedType

    from agentic_r.contrastive import trainer

    if kind == "fsdp2":
        begin = PartialState.__init__

        def begin_as_gpus(self: PartialState, *args: object, **kwargs: object) -> None:
            begin(self, *args, **kwargs)
            if self.distributed_type is DistributedType.MULTI_CPU:
                self.distributed_type = DistributedType.MULTI_GPU

        PartialState.__init__ = begin_as_gpus
    elif kind.startswith("zero"):
        PartialState(backend="gloo")
        trainer.TrainingArguments = partial(
            trainer.TrainingArguments, accelerator_config={"use_configured_state": True}
        )


def _train(kind: str, base: str, folder: str, config: str, die_after: str) -> None:
    from torch import distributed

    from agentic_r.contrastive.trainer import train_retriever

    def die(done: int, total: int) -> None:
        if done == int(die_after) > 0:
            distributed.barrier()
            os._exit(DIED)

    _prepare(kind)
    instances, passages = samples()
    train_retriever(
        Path(base),
        instances,
        passages,
        ContrastiveConfig.model_validate_json(config),
        folder=Path(folder),
        seed=5,
        threads=1,
        progress=die,
        dev=dev_set(),
    )
    distributed.barrier()
    sys.stdout.flush()
    os._exit(0)  # gloo's threads sometimes abort an ordinary exit


def _main(arguments: Sequence[str]) -> None:
    sys.path[:0] = arguments[5:]
    _train(*arguments[:5])


if __name__ == "__main__":
    _main(sys.argv[1:])
