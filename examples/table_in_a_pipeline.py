"""Fit a highway net to a table with categories in a scikit-learn pipeline, and look at its gates.

On tables such nets are for looking inside: compare the scores that are printed. This table is made up, so that the
best possible accuracy is known. For yours, replace `table` and `busy`.
"""

# %% A table: hours of a bike hire. Whether an hour is busy depends on all four columns, and on chance.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score, train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from highway_estimators import HighwayClassifier

ROWS, FOLDS = 2000, 3
rng = np.random.default_rng(0)
weather, day = rng.choice(["sun", "cloud", "rain"], ROWS, p=[0.5, 0.3, 0.2]), rng.choice(["work", "free"], ROWS)
hour, celsius = rng.uniform(0, 24, ROWS), rng.normal(15, 8, ROWS)
table = pd.DataFrame({"weather": weather, "day": day, "hour": hour, "celsius": celsius})
rush = np.exp(-((hour - 8) ** 2) / 4) + np.exp(-((hour - 17) ** 2) / 8)
noon = np.exp(-((hour - 14) ** 2) / 18)
logit = 6 * np.where(day == "work", rush, noon) - 3 - 2 * (weather == "rain") - ((celsius - 20) / 12) ** 2
chance = 1 / (1 + np.exp(-logit))
busy = rng.uniform(size=ROWS) < chance


# %% A pipeline: categories become columns of 0 and 1, numbers are standardised, then comes the model.
def pipeline(model):
    columns = (OneHotEncoder(), ["weather", "day"]), (StandardScaler(), ["hour", "celsius"])
    return make_pipeline(make_column_transformer(*columns), model)


# %% Compare by cross-validation.
models = {
    "highway": HighwayClassifier(random_state=0),
    "MLP": MLPClassifier(learning_rate_init=0.002, max_iter=1000, random_state=0),
    "logistic regression": LogisticRegression(),
}
scores = {name: cross_val_score(pipeline(model), table, busy, cv=FOLDS) for name, model in models.items()}
for name, folds in scores.items():
    print(f"{name}: mean accuracy {folds.mean():.1%}, folds from {folds.min():.1%} to {folds.max():.1%}")
best_possible = np.maximum(chance, 1 - chance).mean()
print(f"best possible: {best_possible:.1%}; always the larger class: {max(busy.mean(), 1 - busy.mean()):.1%}")

# %% Look at the gates of a deeper net: are they open in more layers for some rows? `fitted[:-1]` only transforms.
net = HighwayClassifier(depth=20, random_state=0)
train, test, train_y, test_y = train_test_split(table, busy, random_state=0)
fitted = pipeline(net).fit(train, train_y)
print(f"{net.depth} blocks: test accuracy {fitted.score(test, test_y):.1%}")
depth = pd.Series(fitted[-1].effective_depth(fitted[:-1].transform(test)), test.index)
for names, rows in depth.groupby([test.day, test.weather]):
    print(f"{', '.join(names)}: effective depth {rows.mean():.2f} (sd {rows.std():.2f})")

# %% Draw the scores, and the effective depth (the sum over layers of the mean T) by hour. The MLP is the most accurate
# here. At night, gates are two to three times as open as by day; weather and kind of day matter little.
figure, (left, right) = plt.subplots(1, 2, figsize=(7, 3.2), layout="constrained", width_ratios=(2, 3))
for row, folds in enumerate(scores.values()):
    left.plot(folds, [row] * len(folds), "o", color="tab:blue", alpha=0.5)
left.axvline(best_possible, color="black", linestyle=":")
left.set(yticks=range(len(scores)), yticklabels=scores, xlabel="accuracy (line: best possible)", title="A dot a fold")
for name, rows in depth.groupby(test.day):
    right.plot(test.hour[rows.index], rows, ".", label=name)
right.set(xlabel="hour", xticks=range(0, 25, 6), ylabel=f"effective depth, of {net.depth}", title="A dot a test row")
right.legend(title="day")
figure.savefig("table_in_a_pipeline.png", dpi=100)
