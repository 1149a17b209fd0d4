"""Train the headline nets, draw them into my-run/, and say what is other than in the run before: `make run`.

    python -m my_run [FLAGS of highway_networks.py]

The last run of other data, code or flags is kept in my-run/before/. Where both are of the same images, one picture
shows both.
"""

if __name__ == "__main__":
    from highway_lab.start import start

    start("my_run")

import sys
from functools import partial
from operator import attrgetter
from pathlib import Path

from matplotlib.figure import Figure

import make_highway_networks_gif as gif
import visualize_highway_networks as viz
from highway_lab import logs, programs
from highway_lab.cli import OneLineParser, run_cli
from highway_lab.figures import COLORS, check_drawn, draw_seeds, label_ends, new_figure, save_all
from highway_lab.files import make_place
from highway_lab.logs import RunLog
from highway_networks import Config, InputError

HERE = Path("my-run")
BEFORE = HERE / "before"
LOG, BOTH = "run.json", "before_and_now.png"
CODE = "code of the mathematics"
README = "These accuracies are of one seed; experiments/depth.md has the means of twenty, on MNIST."


def made(folder: Path) -> list[Path]:
    """Return the log in a folder, and the pictures of logs there."""
    found = [path for path in sorted(folder.glob("*.*")) if path.is_file()]
    pictures = [path for path in found if path.suffix in (".png", ".gif") and b" sha256 " in path.read_bytes()]
    return [path for path in found if path.name == LOG] + pictures


def values_of(log: RunLog) -> dict[str, str]:
    """Return what may be other in the next run: data, mathematics and hyperparameters."""
    configs = [vars(run.config) for run in log.runs]
    fields = {name: ", ".join(sorted({str(config[name]) for config in configs})) for name in configs[0]}
    code, samples = log.environment.code, log.environment.samples
    return {"data": f"{log.dataset.name} ({samples})", CODE: code} | fields


def compare(log: RunLog, before: RunLog) -> bool:
    """Print what is other than before, and what both have reached; draw both, and return True, if images are the same.

    Where the code is other, say how to check its gradients.
    """
    now, then = values_of(log), values_of(before)
    changed = [f"{name} {then[name]} -> {now[name]}" for name in now if now[name] != then[name]]
    print(f"other than before: {'; '.join(changed) or 'nothing'}")
    if now[CODE] != then[CODE]:
        print("whether its gradients are right: python highway_networks.py --check-gradients")
    field = viz.scored_on(log)[1]
    for words, of in (("before", before), ("now", log)):
        print(f"{words}: {of.runs[0].metric} {viz.reached(of.runs, viz.scored_on(of)[1], digits=1)}")
    if alike := now["data"] == then["data"] and field == viz.scored_on(before)[1]:
        print("drew", *save_all({BOTH: partial(both, log, before, field)}, HERE, HERE / LOG, BEFORE / LOG))
    else:
        print("not drawn together, as they are of other images")
    return alike


def both(log: RunLog, before: RunLog, field: str) -> Figure:
    """Draw the scores by epoch of a run, and dashed those of the run before."""
    figure, axes = new_figure(f"Before and now: {viz.describe(log, log.runs)}", 3.8)
    viz.draw_history(axes, log, field)
    for block, runs in logs.grouped(before.runs, attrgetter("config.block")).items():
        values = viz.curves(runs, field)
        style = {"color": COLORS[block], "linestyle": (0, (2, 1)), "label": f"{block}, before"}
        draw_seeds(axes, range(values.shape[1]), values, **style)
    viz.mark_guessing(axes, log, field)
    axes.set_ylabel(f"{viz.scored_on(log)[0]} {log.runs[0].metric}")
    label_ends(axes)
    return figure


def main(argv: list[str] | None = None) -> int:
    """Train, draw, compare; returns the exit code. A run that fails leaves all as it was."""
    words = sys.argv[1:] if argv is None else argv
    return run_cli(OneLineParser(prog="python -m my_run"), lambda _: run(words), [])


def run(words: list[str]) -> int:
    """Do what `main` does; raises InputError."""
    if BEFORE.exists() and not BEFORE.is_dir():
        raise InputError(f"{BEFORE}: expected a folder, found a file; move it")
    make_place(HERE / LOG)
    kept = {path.name: path.read_bytes() for path in made(HERE)}
    check_drawn(HERE / BOTH, *(BEFORE / name for name in kept if name != LOG))
    then = logs.read_any(HERE / LOG, RunLog[Config])
    words = ["--seed", "0", *words, "--fresh", "--replace", "--out", (HERE / LOG).as_posix()]
    code = programs.main(words, hint=False)
    if code or not (HERE / LOG).exists() or (HERE / LOG).read_bytes() == kept.get(LOG):  # as with --check-gradients
        return code
    log = viz.read_log(HERE / LOG)
    try:
        for path in made(HERE):
            if path.name != LOG:  # a picture of another
                path.unlink()
        first, *_ = viz.draw(HERE / LOG, HERE)
        if gif.has_animation(log):
            first = gif.animate(HERE / LOG, HERE / gif.NAME)
        if kept and not (then and values_of(then) == values_of(log)):
            BEFORE.mkdir(exist_ok=True)
            for path in made(BEFORE):
                path.unlink()
            for name, content in kept.items():
                (BEFORE / name).write_bytes(content)
    except BaseException:
        for path in made(HERE):
            path.unlink()
        for name, content in kept.items():
            (HERE / name).write_bytes(content)
        raise
    before = logs.read_any(BEFORE / LOG, RunLog[Config])
    if before and compare(log, before):
        first = HERE / BOTH
    print(f"The log, its pictures and its animation are in {HERE}/; open {first} first.")
    data = log.dataset.name
    print(README if data == "mnist" else f"README.md's numbers are of MNIST, these are of {data}.")
    return 0
