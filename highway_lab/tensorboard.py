"""Events of training runs for TensorBoard, written for `--tensorboard DIR` of the training commands.

Imported only if the flag is given. It uses the layer below tensorboardX's SummaryWriter: when the disk is full, that
writer's thread ends silently, and the run would wait for it forever.
"""

import os
import time
from dataclasses import asdict
from typing import Any

from highway_lab.console import name_files
from highway_lab.files import make_place
from highway_networks import InputError, Run, as_path

try:
    from tensorboardX.event_file_writer import EventsWriter
    from tensorboardX.proto.event_pb2 import Event, SessionLog
    from tensorboardX.proto.summary_pb2 import Summary
    from tensorboardX.summary import hparams
except ImportError as error:
    found = 'expected tensorboardX, found none; pip install "highway-networks[tensorboard]"'
    raise InputError(f"--tensorboard: {found}") from error


class EventFile:
    """Events of one run in a folder of its own: hyperparameters and, one step an epoch, the run's history.

    The file holds the whole run, also if that goes on from a checkpoint, and replaces earlier files of the folder.
    """

    def __init__(self, folder: str | os.PathLike, dataset: str, config: Any):
        place = as_path(folder) / name_files(dataset, config) / "events"  # with which the file's name begins
        make_place(place)
        self.file, self.rows = EventsWriter(os.fspath(place)), 0
        self._add(0, session_log=SessionLog(status=SessionLog.START))  # voids earlier files from epoch 0 on

    def __call__(self, run: Run) -> None:
        """Write the new epochs; raises OSError if the disk is full."""
        if not self.rows:
            for summary in hparams(asdict(run.config), dict.fromkeys(("loss/train", f"{run.metric}/test"))):
                self._add(0, summary=summary)
        for row, epoch in enumerate(run.history.epoch[self.rows :], start=self.rows):
            values = [Summary.Value(tag=tag, simple_value=value) for tag, value in scalars(run, row).items()]
            self._add(epoch, summary=Summary(value=values))
        self.rows = len(run.history.epoch)
        self.file.flush()
        if run.diverged or run.history.epoch[-1] == run.config.epochs:
            self.file.close()

    def _add(self, step: int, **content: Any) -> None:
        self.file.write_event(Event(wall_time=time.time(), step=step, **content))


def scalars(run: Run, row: int) -> dict[str, float]:
    """Return a row of a run's history by tag, without nulls; TensorBoard groups tags by the part before the slash."""
    h = run.history
    fields, samples = {"loss": "loss", run.metric: "score"}, ("train", "test", "validation")
    columns = {f"{name}/{of}": getattr(h, f"{of}_{field}") for name, field in fields.items() for of in samples}
    columns["gradient_norm"] = h.grad_norm
    found = {tag: column[row] for tag, column in columns.items() if column}
    found |= {f"T/block_{l}": T for l, T in enumerate(run.gate_means[row] if run.gate_means else [], start=1)}
    return {tag: value for tag, value in found.items() if value is not None}
