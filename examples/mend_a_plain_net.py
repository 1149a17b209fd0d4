"""Break a plain net of 30 blocks, then mend it: by gates, and by other initial weights."""

# %% The data: scikit-learn's digits. Of the training images, some are for validation.
from dataclasses import replace

import matplotlib.pyplot as plt

from highway_lab.datasets import load_dataset
from highway_networks import Config, train

EPOCHS = 20
data = load_dataset("digits")
plain = Config(block="plain", depth=30, epochs=EPOCHS, n_train=1000, n_validation=400, n_test=360, seed=0)

# %% Train a plain net, and a highway net with the same settings.
runs = {"plain": train(plain, data), "highway": train(replace(plain, block="highway"), data)}

# %% Mend the plain net. Try other initial weights and learning rates, and keep the net with the best validation score.
# "glorot" and "he" choose the scale of weights such that signals keep their size from layer to layer.
tried = {}
for init in ("uniform", "glorot", "he"):
    for rate in (0.005, 0.002, 0.001):
        tried[init, rate] = train(replace(plain, init=init, lr=rate), data)
        print(f"plain, {init}, rate {rate}: validation accuracy {tried[init, rate].history.validation_score[-1]:.1%}")
best = max(tried, key=lambda setting: tried[setting].history.validation_score[-1])
runs[f"plain, {best[0]}, rate {best[1]}"] = tried[best]

# %% Test images are used once, after the last epoch. One seed shows what happens, not how sure it is.
accuracy = {name: run.history.test_score[-1] for name, run in runs.items()}
for name, share in accuracy.items():
    print(f"{name}: test accuracy {share:.1%}")

# %% Draw the validation accuracy after each epoch. Epoch 0 is the untrained net. A tuned rate and "glorot" or "he" mend
# the plain net, though the highway net, which was not tuned, gets more of the test images right.
figure, axes = plt.subplots(figsize=(7, 3.5), layout="constrained")
for (name, run), color in zip(runs.items(), ("tab:orange", "tab:blue", "black"), strict=True):
    axes.plot(run.history.epoch, run.history.validation_score, color=color, linewidth=2, label=name)
axes.axhline(1 / data.outputs, color="grey", linestyle=":", label="chance")
axes.set(xlabel="epoch", ylabel="validation accuracy", ylim=(0, 1), xlim=(0, EPOCHS), xticks=range(0, EPOCHS + 1, 5))
axes.set_title(f"Nets of {plain.depth} blocks on the digits", loc="left")
axes.legend(frameon=False, loc="center right")
figure.savefig("mend_a_plain_net.png", dpi=100)
