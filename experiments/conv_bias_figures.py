"""Picture, table and claim of gate biases by depth, in convolutional nets."""

import numpy as np
from matplotlib.figure import Figure

from conv_highway_networks import ConvConfig
from highway_lab.console import final, name_tested, seeds_of
from highway_lab.figures import COLORS, draw_seeds, label_ends, markdown, new_figure, pale
from highway_lab.logs import Run, RunLog

from .claims import Claim
from .common import final_values, group_by
from .common_figures import minus
from .conv_bias import BIASES, GUIDELINE, layers
from .conv_figures import FIELDS, Runs, draw_epochs, gains, scale_by_logarithm
from .intervals import interval

SHADES = dict(zip(BIASES, (0.4, 0.7, 1.0), strict=True))


def by_depth(log: RunLog[ConvConfig]) -> dict[int, dict[float | str, Runs]]:
    """Runs by layers, then by gate bias, the highest first; the plain nets last, as "plain"."""
    depths = {}
    for (depth, *_), runs in group_by(log.runs, key).items():
        depths.setdefault(depth, {})[arm(runs[0].config)] = runs
    return depths


def key(run: Run[ConvConfig]) -> tuple[int, str, float]:
    """What runs that differ by the seed alone have in common; sorted as they are shown."""
    return layers(run.config), run.config.block, -run.config.gate_bias


def arm(config: ConvConfig) -> float | str:
    """What a run is compared by at its depth."""
    return "plain" if config.block == "plain" else config.gate_bias


def name(arm: float | str) -> str:
    """What a table calls it."""
    return arm if arm == "plain" else f"{arm:g}"


def bias_figure(log: RunLog[ConvConfig]) -> Figure:
    """A column for each depth: error on held-out images by epoch, a line for each bias; on test images by bias."""
    config, depths = log.runs[0].config, by_depth(log)
    title = f"{name_tested(log.dataset)}: {config.n_train:,} training images, by layers and gate bias $b_T$"
    figure, grid = new_figure(title, 6.6, nrows=2, ncols=len(depths), sharey="row", squeeze=False)
    for (upper, lower), (depth, arms) in zip(grid.T, depths.items(), strict=True):
        lines = {name(of).replace("-", "−"): ({"color": color(of)}, runs) for of, runs in arms.items()}
        draw_epochs(upper, "validation_score", lines)
        upper.set_title(f"{depth} layers; guideline {minus(GUIDELINE[depth])}")
        errors = 100 - 100 * np.transpose([final_values(arms[bias], "test_score") for bias in BIASES])
        draw_seeds(lower, np.arange(len(BIASES)), errors, label="_", color=COLORS["highway"], marker="o")
        lower.set_xticks(range(len(BIASES)), map(minus, BIASES))
        lower.set_xlabel("$b_T$")
        scale_by_logarithm(lower)
    grid[0, 0].set_ylabel(FIELDS["validation_score"])
    grid[1, 0].set_ylabel("error on test images (%)")
    for axes in grid[0]:
        label_ends(axes)
    return figure


def color(arm: float | str) -> str | tuple[float, ...]:
    """The colour of an arm's line."""
    return COLORS["plain"] if arm == "plain" else pale(COLORS["highway"], SHADES[arm])


def bias_table(log: RunLog[ConvConfig]) -> str:
    """By depth and bias: test accuracy, training loss, and what is gained or lost beside the guideline's bias."""
    rows = []
    for depth, arms in by_depth(log).items():
        advised = arms[GUIDELINE[depth]]
        for of, runs in arms.items():
            gain = "the guideline" if runs is advised else str(interval(gains(runs, advised)))
            scores = [final(runs, "test_score", percent=True), final(runs, "train_loss")]
            rows.append([str(depth), name(of), f"{runs[0].n_params:,}", *scores, gain])
    table = markdown(["layers", "b_T", "parameters", "test accuracy (%)", "training loss", "points gained"], rows)
    return (
        f"{table}\n\n{name_tested(log.dataset)}. {seeds_of(run.config for run in log.runs)} Points gained over the "
        "guideline's bias at that depth: mean and 95 % interval of the differences seed by seed."
    )


def claims(log: RunLog[ConvConfig]) -> list[Claim]:
    """What section 2.2 suggests: at a depth it is best if each other bias is shown to lose, not if one is to gain."""
    verdicts, shown = {}, []
    for depth, arms in by_depth(log).items():
        others = {of: gains(runs, arms[GUIDELINE[depth]]) for of, runs in arms.items() if of != "plain"}
        signs = [interval(values).sign for of, values in others.items() if of != GUIDELINE[depth]]
        verdict = "not" if max(signs) > 0 else "held" if max(signs) < 0 else "not told apart"
        verdicts.setdefault(verdict, []).append(str(depth))
        scores = ", ".join(f"{name(of)} {final(runs, 'test_score', percent=True)}" for of, runs in arms.items())
        shown.append(f"{depth} layers: {scores}")
    verdict = "; ".join(f"{verdict} at {', '.join(depths)}" for verdict, depths in verdicts.items())
    return [
        Claim(
            "2.2",
            "b_T of -1, -2, -3 suits convolutional highway networks of about 10, 20, 30 layers",
            f"test accuracy (%) by b_T, {log.dataset.n_train:,} training images; {'; '.join(shown)}",
            verdict if len(verdicts) > 1 else next(iter(verdicts)),
        )
    ]


FIGURES = {"conv_bias.png": bias_figure}
TABLES = {"conv_bias": bias_table}
