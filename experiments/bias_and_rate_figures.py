"""Pictures, tables and claim of which biases, rates, activations and initialisations let 50 blocks train.

Rule of the verdict: a negative bias suffices if every run of every pair of activation and initialisation learns, and if
nets of 50 blocks outperform nets of no blocks, which learn in any case: the 95 % interval of the lead in test accuracy,
its mean over the pairs for each seed, excludes 0.
"""

from itertools import pairwise

import numpy as np
from matplotlib.figure import Figure

from highway_lab.console import seeds_of
from highway_lab.figures import COLORS, INK, new_figure
from highway_lab.intervals import Interval, interval
from highway_lab.tables import markdown

from .bias_and_rate import STARTS, BiasAndRateLog, arm
from .claims import ACCURACY_MARGIN, Claim, Verdict, combine, judge_better, require
from .common import CHANCE, group, group_by, points
from .common_figures import draw_dots, minus, scale_errors, title
from .rates import edge_note

CONTRASTS = (  # what is changed, (bias, rate) and those that it is compared with: at -2 and 5e-3, 50 blocks fall behind
    ("lower rate", (-2.0, 1e-3), (-2.0, 5e-3)),
    ("lower bias", (-6.0, 5e-3), (-2.0, 5e-3)),
    ("both", (-6.0, 1e-3), (-2.0, 5e-3)),
    ("lower bias at the lower rate", (-6.0, 1e-3), (-2.0, 1e-3)),
    ("lower rate at the lower bias", (-6.0, 1e-3), (-6.0, 5e-3)),
)
LEARNT = 50.0  # % of test accuracy above which a net has learned something: chance is about 11
ERROR_TICKS = (10, 30, 90)  # %
NO_BLOCKS = STARTS[-1]

Start = tuple[str, float, int]  # block, bias, depth


def rate_figure(log: BiasAndRateLog) -> Figure:
    """Draw mean test accuracy, a row a bias, a column a rate; below it its 95 % interval over seeds."""
    cells = group(log.by_rate, "gate_bias", "lr")
    biases, rates = sorted({bias for bias, _ in cells}, reverse=True), sorted({lr for _, lr in cells})
    figure, axes = new_figure(title(log.dataset, log.by_rate, f"{log.by_rate[0].config.depth} highway blocks"), 4.0)
    scores = [[interval(points(cells[bias, lr])) for lr in rates] for bias in biases]
    image = axes.imshow([[score.value for score in row] for row in scores], aspect="auto", vmin=0, vmax=100)
    for row, column in np.ndindex(len(biases), len(rates)):
        score = scores[row][column]
        color = "black" if score.value > 60 else "white"
        axes.text(column, row, f"{score:.1f}".replace(" ± ", "\n± "), color=color, size=9, ha="center", va="center")
    axes.set(xlabel="learning rate", ylabel="initial gate bias $b_T$")
    axes.set_xticks(range(len(rates)), [f"{lr:g}" for lr in rates])
    axes.set_yticks(range(len(biases)), [minus(bias) for bias in biases])
    axes.spines[:].set_visible(False)
    figure.colorbar(image, ax=axes, label="test accuracy (%)", aspect=30)
    return figure


def gains_table(log: BiasAndRateLog) -> str:
    """Tabulate the points gained by a lower rate, a lower bias and both, of CONTRASTS that the log has."""
    cells, rows = group(log.by_rate, "gate_bias", "lr"), []
    for change, to, than in CONTRASTS:
        if {to, than} <= cells.keys():
            ends = [f"{b_T:g}, {lr:g}" for b_T, lr in (than, to)]
            rows.append([change, *ends, str(interval(points(cells[to]) - points(cells[than])))])
    table = markdown(["change", "from b_T, rate", "to", "points gained"], rows)
    return f"{table}\n\nDifferences by seed, 95 % intervals."


def scores_of(log: BiasAndRateLog) -> tuple[list[tuple[str, str]], dict[Start, np.ndarray]]:
    """Return the pairs of activation and initialisation, and test accuracy (%) by start, (pairs, seeds)."""
    cells = group_by(log.by_init, arm)
    pairs = list(dict.fromkeys(key[:2] for key in cells))
    starts = sorted({key[2:] for key in cells}, key=lambda start: (-start[2], start[0] != "plain", -start[1]))
    return pairs, {start: np.array([points(cells[*pair, *start]) for pair in pairs]) for start in starts}


def name_start(block: str, bias: float, depth: int) -> str:
    return "no blocks" if not depth else block if block == "plain" else f"b_T {minus(bias)}"


def depth_of(log: BiasAndRateLog) -> int:
    return max(run.config.depth for run in log.by_init)


def init_figure(log: BiasAndRateLog) -> Figure:
    """Draw test error, a panel a start, a row a pair of activation and initialisation, beside nets of no blocks."""
    pairs, scores = scores_of(log)
    no_blocks = 100 - scores.pop(NO_BLOCKS)
    names = f"{depth_of(log)} blocks, best rate of each"
    figure, panels = new_figure(title(log.dataset, log.by_init, names), 5.2, ncols=len(scores), sharey=True)
    gaps = np.cumsum([0, *(left[0] != right[0] for left, right in pairwise(pairs))])  # between activations
    heights = -np.arange(len(pairs)) - 0.7 * gaps
    for axes, (start, of_start) in zip(panels, scores.items(), strict=True):
        for height, errors, baseline in zip(heights, 100 - of_start, no_blocks, strict=True):
            draw_dots(axes, errors, height, color=COLORS[start[0]])
            axes.plot(
                baseline.mean(), height, marker="|", markersize=13, color=INK, linestyle="none", label="no blocks"
            )
        scale_errors(axes, ERROR_TICKS)
        axes.set(title=name_start(*start).replace("b_T", "$b_T$"), xlim=(5, 100))
    panels[0].set_yticks(heights, [", ".join(pair) for pair in pairs])
    panels[len(panels) // 2].set_xlabel("test error (%)")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles[:1], labels[:1], loc="outside lower right", frameon=False)
    return figure


def init_table(log: BiasAndRateLog) -> str:
    """Tabulate final test accuracy by activation and initialisation, with the chosen rate, a column a start."""
    cells, (pairs, scores) = group_by(log.by_init, arm), scores_of(log)
    rows = [
        [*pair, *(f"{interval(of[row]):.1f} ({cells[*pair, *start][0].config.lr:g})" for start, of in scores.items())]
        for row, pair in enumerate(pairs)
    ]
    header = ["activation", "initialisation", *(name_start(*start) for start in scores)]
    edges = edge_note(log.tried, log.by_init, arm, lambda *arm: " ".join([*arm[:2], name_start(*arm[2:])]))
    return (
        f"{markdown(header, rows)}\n\nTest accuracy (%) of {depth_of(log)} blocks, and rate. "
        f"{seeds_of(run.config for run in log.by_init)} A diverged run counts as {100 * CHANCE:.0f} %. {edges}"
    )


def lead_of(scores: dict[Start, np.ndarray], start: Start) -> Interval:
    """Return the points by which nets outperform nets of no blocks: their mean over pairs for each seed."""
    return interval((scores[start] - scores[NO_BLOCKS]).mean(axis=0))


def starts_table(log: BiasAndRateLog) -> str:
    """Tabulate by start how many runs and pairs learn, and how nets compare with nets of no blocks."""
    pairs, scores = scores_of(log)
    rows = []
    for start, of_start in scores.items():
        learn = of_start > LEARNT
        row = [name_start(*start), f"{learn.sum()} of {learn.size}", f"{learn.all(axis=1).sum()} of {len(pairs)}"]
        if start != NO_BLOCKS:
            signs = [interval(lead).sign for lead in of_start - scores[NO_BLOCKS]]
            row += [str(lead_of(scores, start)), str(signs.count(1)), str(signs.count(-1))]
        rows.append(row + [""] * (6 - len(row)))
    header = ["net", "runs that learn", "pairs that learn", "minus no blocks", "pairs above", "pairs below"]
    return (
        f"{markdown(header, rows)}\n\nPair: of activation and initialisation. To learn: to exceed {LEARNT:g} % test "
        "accuracy. Minus no blocks: points, mean over pairs, interval over seeds. Above, below: pairs whose interval "
        "excludes 0."
    )


def claims(log: BiasAndRateLog) -> list[Claim]:
    pairs, scores = scores_of(log)
    verdicts, leads = {}, []
    for start, of_start in scores.items():
        if start[0] == "highway" and start[1] < 0:
            name, lead = minus(start[1]), lead_of(scores, start)
            learns = Verdict.REPRODUCED if np.all(of_start > LEARNT) else Verdict.NOT_REPRODUCED
            verdicts[name] = require(learns, judge_better(lead, ACCURACY_MARGIN))
            leads.append(f"{name}: {lead}")
    enough = " and ".join(name for name, verdict in verdicts.items() if verdict == Verdict.REPRODUCED) or "none"
    paper = "a negative gate bias suffices for learning, for various activations and zero-mean initialisations"
    gain = f"points over nets without blocks, mean of {len(pairs)} pairs, n = {of_start.shape[1]}"
    why = f"b_T that suffice: {enough}; {gain}, by b_T: {'; '.join(leads)}"
    return [Claim("2.2", paper, combine(verdicts.values()), "WHY", why, detail=True)]


FIGURES = {"bias_and_rate.png": rate_figure, "bias_by_init.png": init_figure}
TABLES = {"bias_and_rate_gains": gains_table, "bias_by_start": starts_table, "bias_by_init": init_table}
