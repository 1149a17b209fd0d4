"""Read a digit in a picture of your own with a saved net, once the picture looks like those that the net has learned.

    python examples/read_a_digit.py FILE    # dark on bright or bright on dark, of any size

A net that was trained on MNIST knows bright digits on black, scaled to 20 x 20 of 28 x 28 pixels and centred by their
mass. It misreads most pictures that are only made as small. Without FILE, a four is drawn and read.
"""

# %% The net was trained on MNIST. For yours, set NET to the file that `net.save` or `--save-model` wrote.
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from PIL import Image, ImageDraw

import highway_networks
from highway_lab.datasets import read_image
from highway_networks import DeepNet, InputError

NET = Path(highway_networks.__file__).parent / "models" / "highway-50.npz"
net = DeepNet.load(NET)


# %% The form of MNIST's digits. Ink is what differs from the paper, whose colour most of the picture has: a smooth one,
# as light may come from a side. We cut out the ink, scale it until its longer side has 20 pixels, and move it until its
# centre of mass is in pixel (14, 14) of (28, 28).
def as_mnist(picture):
    """Return a picture (channels, rows, columns), 0 to 255, as an image (28, 28); raises InputError for one colour."""
    size = [round(max(side * min(256 / max(picture.shape[1:]), 1), 1)) for side in picture.shape[:0:-1]]
    pixels = np.stack([Image.fromarray(channel).resize(size, Image.Resampling.BOX) for channel in picture]).astype(
        float
    )
    row, column = np.indices(pixels.shape[1:]) / max(size)
    surface = np.stack([row**0, row, column, row**2, row * column, column**2])
    paper = np.median(pixels, axis=(1, 2), keepdims=True)
    for _ in range(10):  # fit to the half of the pixels that the last fit missed least
        off = abs(pixels - paper).max(axis=0)
        near = off <= np.median(off)
        paper = np.tensordot(np.linalg.lstsq(surface[:, near].T, pixels[:, near].T)[0].T, surface, 1)
    ink = abs(pixels - paper).max(axis=0)
    if ink.max() < 32:
        raise InputError("picture: expected a digit, found nothing but paper; choose another")
    ink[ink < 0.3 * ink.max()] = 0  # shadows, and what compression has left
    digit = Image.fromarray(ink.astype(np.float32))
    digit = digit.crop(digit.getbbox())
    digit = digit.resize([max(round(20 * side / max(digit.size)), 1) for side in digit.size], Image.Resampling.BILINEAR)
    centre = (np.average(np.arange(n) + 0.5, weights=np.sum(digit, axis)) for axis, n in enumerate(digit.size))
    left, top = (int(np.ceil(along)) - 15 for along in centre)
    pixels = np.asarray(digit.crop((left, top, left + 28, top + 28)))  # black where the digit has none
    return np.rint(pixels * (255 / pixels.max())).astype(np.uint8)


# %% The picture of FILE or, without one, a four in dark ink on grey paper. In a notebook, set FILE to yours.
words = [] if "get_ipython" in globals() else sys.argv[1:]  # a notebook's are not ours
FILE = "".join(words)
paper = Image.new("L", (400, 300), 220)
for line in ([(90, 50), (60, 160), (200, 160)], [(155, 70), (140, 260)]):
    ImageDraw.Draw(paper).line(line, fill=50, width=16, joint="curve")
try:
    if len(words) > 1 or FILE.startswith("-"):
        raise InputError(f"FILE: expected one, found {' '.join(words)}; for a net of yours, set NET in this program")
    picture = read_image(FILE) if FILE else np.asarray(paper)[None]
    image = as_mnist(picture)
except InputError as error:
    print(error, file=sys.stderr)
    sys.exit(2)

# %% What the net reads in it, how sure it is (softmax), and what it reads in a picture that is only made small.
logits = net.predict(net.preprocess(np.stack([image, Image.fromarray(picture[0]).resize((28, 28))])))
shares = np.exp(logits[0] - logits[0].max())
shares /= shares.sum()
digit, misread = logits.argmax(axis=1)
print(f"{FILE or 'a drawn four'}: reads {digit}, {shares[digit]:.1%} sure; only made small, {misread}")

# %% Draw the picture, what the net sees, and how sure it is of each digit.
figure, (left, middle, right) = plt.subplots(1, 3, figsize=(7, 2.6), layout="constrained")
left.imshow(picture.transpose(1, 2, 0), cmap="gray", vmin=0, vmax=255)
left.set(xticks=[], yticks=[], title="The picture")
middle.imshow(image, cmap="gray")
middle.set(xticks=[], yticks=[], title="As MNIST has it")
right.bar(range(10), shares)
right.set(xticks=range(10), ylim=(0, 1), title=f"The net reads {digit}")
figure.savefig("read_a_digit.png", dpi=100)
