"""The training step in PyTorch: as a highway net is usually written, with fewer and larger operations, compiled."""

import os
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from highway_networks import CLASSES, DeepNet

from .contenders import D_IN, LR, Tensors

Part = Callable[[nn.Parameter], Tensor]


class HighwayLayer(nn.Module):
    """y = t·h + (1 − t)·x, with a linear map for each of h and t."""

    def __init__(self, size: int):
        super().__init__()
        self.transform = nn.Linear(size, size)
        self.gate = nn.Linear(size, size)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.tanh(self.transform(x))
        t = torch.sigmoid(self.gate(x))
        return t * h + (1 - t) * x

    def tensors(self, part: Part) -> dict[str, Tensor]:
        """The layer's tensors, or `part` of them such as their gradients, in our form: views."""
        return {
            "W_H": part(self.transform.weight).T,
            "b_H": part(self.transform.bias),
            "W_T": part(self.gate.weight).T,
            "b_T": part(self.gate.bias),
        }


class FusedHighwayLayer(nn.Module):
    """The same, with one linear map for both, and y as a single operation."""

    def __init__(self, size: int):
        super().__init__()
        self.both = nn.Linear(size, 2 * size)

    def forward(self, x: Tensor) -> Tensor:
        h, t = self.both(x).chunk(2, dim=1)
        return torch.lerp(x, torch.tanh(h), torch.sigmoid(t))

    def tensors(self, part: Part) -> dict[str, Tensor]:
        """The layer's tensors, or `part` of them such as their gradients, in our form: views."""
        W_H, W_T = part(self.both.weight).T.chunk(2, dim=1)
        b_H, b_T = part(self.both.bias).chunk(2)
        return {"W_H": W_H, "b_H": b_H, "W_T": W_T, "b_T": b_T}


class HighwayNetwork(nn.Module):
    """A plain layer, `depth` highway layers, a linear layer."""

    def __init__(self, layer: type[nn.Module], size: int, depth: int):
        super().__init__()
        self.input_proj = nn.Linear(D_IN, size)
        self.layers = nn.ModuleList(layer(size) for _ in range(depth))
        self.output_proj = nn.Linear(size, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.tanh(self.input_proj(x))
        for layer in self.layers:
            x = layer(x)
        return self.output_proj(x)

    def tensors(self, part: Part) -> dict[str, list[Tensor]]:
        """All tensors under our names, each as the list of its parts along its first axis: rows, or layers."""
        layers = [layer.tensors(part) for layer in self.layers]
        ends = {
            "W_in": part(self.input_proj.weight).T,
            "b_in": part(self.input_proj.bias),
            "W_out": part(self.output_proj.weight).T,
            "b_out": part(self.output_proj.bias),
        }
        return {name: list(tensor) for name, tensor in ends.items()} | {
            name: [layer[name] for layer in layers] for name in layers[0]
        }


def as_arrays(tensors: dict[str, list[Tensor]]) -> Tensors:
    return {name: np.stack([part.numpy() for part in parts]) for name, parts in tensors.items()}


class Eager:
    """Two linear maps a layer, and Adam as it comes."""

    layer = HighwayLayer
    fused_adam = False

    def __init__(self, net: DeepNet, x: np.ndarray, y: np.ndarray, clip: float):
        torch.set_num_threads(len(os.sched_getaffinity(0)))
        self.model = HighwayNetwork(self.layer, net.hidden, net.depth)
        with torch.no_grad():
            for name, parts in self.model.tensors(lambda parameter: parameter).items():
                for part, values in zip(parts, net.params[name], strict=True):
                    part.copy_(torch.as_tensor(values))
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=LR, fused=self.fused_adam)
        self.x, self.y, self.clip = torch.from_numpy(x), torch.from_numpy(y), clip

    def loss(self) -> Tensor:
        return functional.cross_entropy(self.model(self.x), self.y)

    def backward(self) -> Tensor:
        """Forward, backward and clip; returns the loss."""
        self.optimizer.zero_grad()
        loss = self.loss()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        return loss

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.backward()
            self.optimizer.step()

    def loss_and_gradients(self) -> tuple[float, Tensors]:
        return self.backward().item(), as_arrays(self.model.tensors(lambda parameter: parameter.grad))

    def parameters(self) -> Tensors:
        return as_arrays(self.model.tensors(lambda parameter: parameter.detach()))


class Fused(Eager):
    """One linear map a layer, and Adam as one operation."""

    layer = FusedHighwayLayer
    fused_adam = True


class Compiled(Fused):
    """The same; forward, loss and their backward compiled as one graph for just these shapes."""

    def __init__(self, net: DeepNet, x: np.ndarray, y: np.ndarray, clip: float):
        super().__init__(net, x, y, clip)
        torch.compiler.reset()  # of shapes seen before it would make variables, which run slower
        self.loss = torch.compile(self.loss, fullgraph=True, dynamic=False)
