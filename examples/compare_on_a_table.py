"""Compare nets on a table of one's own: highway, residual and plain blocks, scikit-learn's MLP and boosted trees.

    python examples/compare_on_a_table.py FILE.csv --target COLUMN     # with a block of your own: --import FILE.py

No row that is scored chooses anything (nested validation): each seed holds out a fifth of the rows, and every kind
tries as many settings by cross-validation on the others. Without a file the table is scikit-learn's of breast cancer.
2,000 rows take two minutes on two CPUs.
"""

# %% What to compare, and on what.

import time
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from scipy.stats import t
from sklearn.compose import TransformedTargetRegressor, make_column_selector, make_column_transformer
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.impute import SimpleImputer
from sklearn.model_selection import RandomizedSearchCV, train_test_split
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from tqdm import tqdm

from highway_estimators import HighwayClassifier, HighwayRegressor
from highway_lab.cli import OneLineParser, import_file
from highway_lab.figures import BLOCK_COLORS
from highway_networks import BLOCKS

MOST_TEXTS = 50  # in a column: each becomes a column of its own
FEWEST = 10  # rows; half as many of each class, which folds and held-out rows share
known = set(BLOCKS)
parser = OneLineParser(description=__doc__.partition("\n")[0])
parser.add_argument("file", nargs="?", type=Path, help="a table, .csv, a row a sample")
parser.add_argument("--target", help="the column to predict; numbers with more than 20 values are a regression")
parser.add_argument("--drop", default="", help="columns to leave out, separated by commas, such as those of names")
parser.add_argument("--seeds", type=int, default=5, help="how often rows are held out (default: 5)")
parser.add_argument("--tries", type=int, default=3, help="settings that each kind tries for each seed (default: 3)")
parser.add_argument("--out", default="compare_on_a_table", help="name of .csv, .tex and .png (default: %(default)s)")
asked = parser.parse_args([] if "get_ipython" in globals() else None)  # a notebook's words are not ours
try:
    for own in getattr(asked, "import", []):
        import_file(own)
    if asked.target and not asked.file:
        raise ValueError("--target: expected with a file, found none; name the table")
    table = pd.read_csv(asked.file) if asked.file else load_breast_cancer(as_frame=True).frame
    name, target = (asked.file.stem, asked.target) if asked.file else ("breast cancer", "target")
    dropped = [*filter(None, asked.drop.split(","))]
    for flag, column in [("--target", target), *(("--drop", of) for of in dropped)]:
        if column not in table or (flag == "--drop" and column == target):
            raise ValueError(f"{flag}: expected one of {', '.join(table)}, found {column or 'none'}; choose another")
    y, table = table[target], table.drop(columns=[target, *dropped])
    if y.isna().any():
        raise ValueError(f"{target}: expected a value in each row, found {y.isna().sum()} without; leave these out")
    if table.empty or len(y) < FEWEST:
        raise ValueError(f"expected columns and at least {FEWEST} rows, found {table.shape[1]} and {len(y)}; add some")
    for column, values in table.items():
        numbers, texts = pd.api.types.is_numeric_dtype(values), values.nunique()
        wrong = "no value" if values.isna().all() else "inf" if numbers and np.isinf(values).any() else ""
        if wrong := wrong or (f"{texts} different texts" if not numbers and texts > MOST_TEXTS else ""):
            expected = f"expected finite numbers, or at most {MOST_TEXTS} different texts"
            raise ValueError(f"{column}: {expected}, found {wrong}; leave it out (--drop {column}), or make it numbers")
    classes = y.nunique() <= 20 or not pd.api.types.is_numeric_dtype(y)
    if classes and (few := y.value_counts().min()) < FEWEST // 2:
        raise ValueError(
            f"{target}: expected at least {FEWEST // 2} rows of each class, found {few}; join or drop some"
        )
except (OSError, ValueError) as error:
    found = " ".join(str(error).split())
    parser.error(f"{asked.file or 'table'}: {found if '; ' in found else f'{found}; save it in UTF-8, with commas'}")
TEST, FOLDS, EPOCHS, DEPTHS, RATES = 0.2, 2, 100, [1, 3, 10], [0.001, 0.003, 0.01]

# %% The kinds of models, and the values that each may try.
if classes:
    Net, MLP, Trees = HighwayClassifier, MLPClassifier, HistGradientBoostingClassifier
else:
    Net, MLP, Trees = HighwayRegressor, MLPRegressor, HistGradientBoostingRegressor
nets = {block: {"block": block} for block in ("highway", "residual", "plain", *sorted(set(BLOCKS) - known))}
nets["plain, orthogonal"] = {"block": "plain", "init": "orthogonal"}
net_values = {"depth": DEPTHS, "learning_rate": RATES, "weight_decay": [0, 0.003]}
mlp_values = {"hidden_layer_sizes": [(100,) * (1 + depth) for depth in DEPTHS], "learning_rate_init": RATES}
tree_values = {"learning_rate": [0.03, 0.1, 0.3], "max_leaf_nodes": [7, 15, 31], "l2_regularization": [0, 1]}
kinds = {kind: (Net(**settings, max_iter=EPOCHS), net_values) for kind, settings in nets.items()} | {
    "MLP": (MLP(max_iter=EPOCHS), mlp_values | {"alpha": [0.0001, 0.01, 1]}),
    "boosted trees": (Trees(), tree_values),
}


# %% One seed of one kind: choose a setting by cross-validation on four fifths of the rows, then score it on the rest.
def tried(kind: str, seed: int) -> dict:
    """Return the score on held-out rows, the seconds, and the setting that was chosen. Text becomes columns of 0, 1."""
    model, values = kinds[kind]
    numbers = make_column_selector(dtype_include="number")
    scaled = make_pipeline(SimpleImputer(), StandardScaler()), numbers
    coded = OneHotEncoder(handle_unknown="ignore", sparse_output=False), make_column_selector(dtype_exclude="number")
    steps = make_pipeline(make_column_transformer(scaled, coded), model.set_params(random_state=seed))
    grid = {f"{steps.steps[-1][0]}__{of}": given for of, given in values.items()}
    if not classes:
        steps = TransformedTargetRegressor(steps, transformer=StandardScaler())
        grid = {f"regressor__{of}": given for of, given in grid.items()}
    X, X_test, y_own, y_test = train_test_split(
        table, y, test_size=TEST, random_state=seed, stratify=y if classes else None
    )
    start = time.process_time()
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        search = RandomizedSearchCV(steps, grid, n_iter=asked.tries, cv=FOLDS, random_state=seed).fit(X, y_own)
    seconds = time.process_time() - start
    chosen = ", ".join(f"{of.rpartition('__')[2]} {value}" for of, value in search.best_params_.items())
    return {"kind": kind, "seed": seed, "score": search.score(X_test, y_test), "seconds": seconds, "chosen": chosen}


jobs = [delayed(tried)(kind, seed) for seed in range(asked.seeds) for kind in kinds]
of_target = f"{y.nunique()} classes" if classes else "a regression"
print(f"{name}: {len(table)} rows, {table.shape[1]} columns, {of_target}; {len(jobs)} jobs", flush=True)
done = Parallel(n_jobs=-1, return_as="generator_unordered")(jobs)
runs = pd.DataFrame(tqdm(done, name, len(jobs), disable=None)).sort_values(["kind", "seed"])

# %% The table, best first. The interval allows for the training rows that seeds share (Nadeau & Bengio 2003). The score
# of guessing is that of the most frequent class, or of the mean.
guess = y.value_counts(normalize=True).max() if classes else 0
of_kind = runs.groupby("kind")
share = (1 / of_kind.size() + TEST / (1 - TEST)) ** 0.5
rows = pd.DataFrame(
    {
        "accuracy" if classes else "R²": of_kind.score.mean().round(4),
        "± 95 %": (t.ppf(0.975, of_kind.size() - 1) * of_kind.score.std() * share).round(4),
        "n": of_kind.size(),
        "tries": asked.tries,
        "seconds": of_kind.seconds.sum().round().astype(int),
    }
)
rows = rows.sort_values(rows.columns[0], ascending=False).reset_index()
rows.to_csv(f"{asked.out}.csv", index=False, lineterminator="\n", float_format="%.4f")
cells = [[f"{of:.4f}" if isinstance(of, float) else str(of) for of in line] for line in [rows.columns, *rows.values]]
lines = [" & ".join(line).replace("_", r"\_").replace("%", r"\%") for line in cells]
lines = [rf"\begin{{tabular}}{{l{'r' * (rows.shape[1] - 1)}}}", *(rf"{line} \\" for line in lines), r"\end{tabular}"]
Path(f"{asked.out}.tex").write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")
print("on rows that each of n seeds holds out, which choose nothing; ± allows for the rows that seeds share; guessing")
print(f"scores {guess:.4f}; seconds are the processor's, all tries included")
print(rows.to_string(index=False, float_format="%.4f"))

# %% A dot a seed; a bar is the mean with its interval.
figure, axes = plt.subplots(figsize=(7, 0.8 + 0.35 * len(rows)), layout="constrained")
for place, row in enumerate(rows.values):
    scores = runs.score[runs.kind == row[0]]
    color = BLOCK_COLORS.get(row[0], "black")
    axes.errorbar(row[1], -place, xerr=row[2], fmt="|", color=color, markersize=12, capsize=3)
    axes.plot(scores, [-place] * len(scores), "o", color=color, alpha=0.4)
axes.set(yticks=-np.arange(len(rows)), yticklabels=rows.kind, xlabel=f"{rows.columns[1]} on held-out rows")
axes.set_title(f"{name}: {len(table)} rows, tries: {asked.tries}, guessing: {guess:.2f}", loc="left")
figure.savefig(f"{asked.out}.png", dpi=100)
