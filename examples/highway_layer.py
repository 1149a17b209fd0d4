"""A lecture: how gates let a deep net learn, and how a highway layer works.

A plain layer computes y = H(x), and a deep net is many of them in a row. Each layer also stands in the way of the
gradient, which has to travel back through all of them: with small uniform weights, little of it is left after thirty
layers, and the first layers learn nothing. Srivastava, Greff and Schmidhuber (2015) gave every unit a gate T, a number
between 0 and 1 that decides how much the unit transforms its input and how much it passes on. We write such a layer in
NumPy, derive its gradient by hand, and train two nets that differ in nothing but their gates.
"""

# %% We need NumPy, the digits of scikit-learn (1,797 images of 8 x 8 pixels), and matplotlib for the pictures. The
# last 360 images are for testing; no net is trained on them.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

images, digits = load_digits(return_X_y=True)
x_train, x_test = images[:-360] / 16, images[-360:] / 16
y_train, y_test = digits[:-360], digits[-360:]
DEPTH, UNITS, EPOCHS = 30, 40, 30

# %% ## The layer
# A highway layer computes y = H·T + x·(1 − T). H = tanh(x W_H + b_H) is what a plain layer computes. The gate T = σ(x
# W_T + b_T) looks at the same input; σ, the logistic function, keeps it between 0 and 1. Where T is 1 the layer is a
# plain one, where T is 0 it copies its input. So input and output need the same number of units. Each row of x is an
# image. Without gates, T is 1 everywhere, and we have a plain layer: we need only one function for both. The factor
# 1 − T is called the carry gate. Such gates come from the LSTM, where they work along time; a ResNet (He et al. 2016)
# has none and keeps all of x, y = x + H.


def layer_forward(x, W_H, b_H, W_T, b_T, gated=True):
    H = np.tanh(x @ W_H + b_H)
    T = 1 / (1 + np.exp(-(x @ W_T + b_T))) if gated else np.ones_like(H)
    return H * T + x * (1 - T), (x, H, T)


# %% ## Its gradient
# Suppose that we know dy, the derivative of the loss with respect to each number in y = H·T + x·(1 − T). The product
# rule gives us three more derivatives: dH = T·dy, dT = (H − x)·dy and, along the path around H and T, dx = (1 −
# T)·dy. The last one is the point of the whole construction. Where a gate is nearly closed, 1 − T is nearly 1, and
# the gradient passes the layer as if the layer were not there: it travels on a highway. What remains is the chain
# rule through tanh, whose derivative is 1 − H², through σ, whose derivative is T·(1 − T), and through the two affine
# maps.


def layer_backward(dy, cache, W_H, W_T):
    x, H, T = cache
    dH, dT, dx = T * dy, (H - x) * dy, (1 - T) * dy
    dz_H, dz_T = dH * (1 - H**2), dT * T * (1 - T)
    dx = dx + dz_H @ W_H.T + dz_T @ W_T.T
    return dx, (x.T @ dz_H, dz_H.sum(axis=0), x.T @ dz_T, dz_T.sum(axis=0))


# %% ## Is that right?
# Nobody should trust a gradient that was derived by hand. We take the sum of y, weighted by random numbers, as the
# loss, move each number of x and of the four parameters a little up and down, and compare. The two ways should agree
# to about nine digits, as central differences are no better.
rng = np.random.default_rng(0)
x, weights_of_y = rng.normal(size=(3, 5)), rng.normal(size=(3, 5))
parameters = [rng.normal(size=shape) for shape in ((5, 5), 5, (5, 5), 5)]
dx, gradients = layer_backward(weights_of_y, layer_forward(x, *parameters)[1], parameters[0], parameters[2])
errors = []
for tensor, gradient in zip((x, *parameters), (dx, *gradients), strict=True):
    for place in np.ndindex(tensor.shape):
        kept, losses = tensor[place], []
        for tensor[place] in (kept + 1e-6, kept - 1e-6):
            losses.append((weights_of_y * layer_forward(x, *parameters)[0]).sum())
        tensor[place] = kept
        errors.append(abs((losses[0] - losses[1]) / 2e-6 - gradient[place]))
print(f"{len(errors)} derivatives, the largest error is {max(errors):.1e}")
assert max(errors) < 1e-8, "the backward pass does not belong to the forward pass"


# %% ## A deep net
# The net is a map from 64 pixels to 40 units, thirty layers, and a map to 10 outputs. It starts with uniform weights,
# of the size ±1/√inputs that is usual, and with gates that are nearly closed: with b_T = −3, T is about 0.05.


def uniform(inputs, outputs):
    return rng.uniform(-1, 1, (inputs, outputs)) / np.sqrt(inputs)


def new_net():
    def new_layer():
        return [uniform(UNITS, UNITS), np.zeros(UNITS), uniform(UNITS, UNITS), np.full(UNITS, -3.0)]

    return [[uniform(64, UNITS)], *(new_layer() for _ in range(DEPTH)), [uniform(UNITS, 10)]]


def net_forward(net, x, gated):
    states, caches = [np.tanh(x @ net[0][0])], []
    for layer in net[1:-1]:
        y, cache = layer_forward(states[-1], *layer, gated)
        states.append(y)
        caches.append(cache)
    return states[-1] @ net[-1][0], states, caches


# %% The loss is the cross-entropy after softmax, whose derivative with respect to the outputs is simply the predicted
# probabilities minus 1 for the right class. From there we go back through the layers, the last one first. On the way
# we keep the size of the gradient that arrives at each layer.


def net_backward(net, x, labels, gated):
    outputs, states, caches = net_forward(net, x, gated)
    dy = np.exp(outputs - outputs.max(axis=1, keepdims=True))
    dy /= dy.sum(axis=1, keepdims=True)
    dy[np.arange(len(x)), labels] -= 1
    dy /= len(x)
    gradients = [[states[-1].T @ dy]]
    dy = dy @ net[-1][0].T
    arriving = [np.linalg.norm(dy)]
    for layer, cache in zip(net[-2:0:-1], caches[::-1], strict=True):
        dy, gradient = layer_backward(dy, cache, layer[0], layer[2])
        gradients.append(gradient)
        arriving.append(np.linalg.norm(dy))
    gradients.append([x.T @ (dy * (1 - states[0] ** 2))])
    return gradients[::-1], arriving[::-1]


# %% ## What arrives at the first layer?
# Before we train, we send the gradient of a hundred images back through a new net, once with its gates and once
# without. Look at the scale, in which each step is a factor: hardly anything of the plain net's gradient gets to its
# first layers.
start = new_net()
figure, axes = plt.subplots(figsize=(7, 3), layout="constrained")
arriving = {}
for name, color in (("highway", "tab:blue"), ("plain", "tab:orange")):
    _, arriving[name] = net_backward(start, x_train[:100], y_train[:100], gated=name == "highway")
    axes.semilogy(arriving[name], color=color, label=name)
    print(f"{name}: {arriving[name][0] / arriving[name][-1]:.1e} of the gradient arrives at the first layer")
axes.set(xlabel="layers below", ylabel="norm of the gradient", xlim=(0, DEPTH))
axes.set_title("The gradient on its way back, from right to left", loc="left")
_ = axes.legend(frameon=False)

# %% ## Training
# Both nets start from the same weights and see the same images in the same order. We train by gradient descent with
# momentum, the method of the paper: the velocity v remembers nine tenths of earlier gradients.


def train(gated, rate=0.1):
    net = [[tensor.copy() for tensor in layer] for layer in start]
    velocity = [[np.zeros_like(tensor) for tensor in layer] for layer in net]
    order, scores = np.random.default_rng(1), []
    for _ in range(EPOCHS):
        for rows in np.array_split(order.permutation(len(x_train)), len(x_train) // 50):
            gradients, _ = net_backward(net, x_train[rows], y_train[rows], gated)
            for layer, v, gradient in zip(net, velocity, gradients, strict=True):
                for i in range(len(layer)):
                    v[i] = 0.9 * v[i] - rate * gradient[i]
                    layer[i] += v[i]
        scores.append((net_forward(net, x_test, gated)[0].argmax(axis=1) == y_test).mean())
    return net, scores


nets = {name: train(name == "highway") for name in ("highway", "plain")}

# %% The highway net learns, and the plain net guesses. That is the paper's first claim, for one seed and one setting;
# with other initial weights and a tuned rate, plain nets of this depth learn, too, as the pages of this project show.
figure, axes = plt.subplots(figsize=(7, 3), layout="constrained")
for name, color in (("highway", "tab:blue"), ("plain", "tab:orange")):
    axes.plot(range(1, EPOCHS + 1), nets[name][1], color=color, linewidth=2, label=name)
axes.axhline(0.1, color="grey", linestyle=":", label="chance")
axes.set(xlabel="epoch", ylabel="test accuracy", ylim=(0, 1), xlim=(1, EPOCHS))
axes.set_title(f"Two nets of {DEPTH} layers, the same weights at first", loc="left")
axes.legend(frameon=False, loc="center right")
for name, (_, scores) in nets.items():
    print(f"{name}: {scores[-1]:.1%} of the test images are named correctly")

# %% ## The gates
# What did the gates learn? We take the mean of T over units and test images, for each layer, before and after
# training. Most gates are still nearly closed: the net uses its thirty layers for small corrections to what it passes
# on. To look further into a trained net, layer by layer and class by class, go on with `look_into_a_net`. For work of
# your own, take `highway_networks`: the same equations, with more kinds of layers and optimisers, and much faster.
figure, axes = plt.subplots(figsize=(7, 3), layout="constrained")
for net, color, label in ((start, "lightgrey", "before training"), (nets["highway"][0], "tab:blue", "after training")):
    gates = np.array([T.mean() for _, _, T in net_forward(net, x_test, True)[2]])
    axes.step(np.arange(DEPTH) + 0.5, gates, where="post", color=color, linewidth=2, label=label)
axes.set(xlabel="layer", ylabel="mean T", ylim=(0, None), xlim=(0.5, DEPTH + 0.5))
axes.set_title("Gates of the highway net", loc="left")
axes.legend(frameon=False)
plt.show()
