"""How Themis's authors count computation: their public file read back to an accelerator, and gains with that accelerator.

`Resnet50_DataParallel.txt` of ASTRA-sim's public repository gives three times per layer in cycles at 1 GHz, and no word on where they
come from. They are those of one array of 256 x 256 multipliers that holds weights: a product of M x K and K x N goes through
ceil(K / 256) ceil(N / 256) tiles, each taking M cycles, and min(K, 256) + 256 to fill and drain. M is the pixels of ONE image, though the
gradients are those of the whole model. Here that is checked layer by layer, and then training iterations are timed with such an
array, and with one sample per NPU at a flat rate, instead of with the batches that we assume.

Run: python -m bench.collective_arrays
"""

import math
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from bench.collective_training import A100_TFLOPS, ALL_AT_ONCE, PUBLISHED, gains_of

from headway.collectives.simulate.cost import CollectiveKind
from headway.collectives.training.iteration import Settings
from headway.collectives.training.textfile import NS_PER_S, Sent, TextWorkload, TimedLayer
from headway.collectives.training.workloads import workload

SIDE = 256
NOTHING = Sent(None, 0)
DLRM_TFLOPS = 168.0  # where the mean gain of dlrm-large is the published one (bench.collective_training)


class Product(NamedTuple):
    """A layer as a product of matrices: rows (pixels, tokens or samples), and weights of `kernel` positions, inputs x outputs."""

    rows: int
    inputs: int
    outputs: int
    kernel: int = 1


# The distinct layers of the file, and its cycles: forward, gradient of the input, gradient of the weights.
FILE = {
    Product(112 * 112, 3, 64, 49): (13003, 12864, 32291),
    Product(56 * 56, 64, 64): (3456, 3456, 7488),
    Product(56 * 56, 64, 64, 9): (10944, 10368, 14144),
    Product(56 * 56, 64, 256): (3456, 3648, 7488),
    Product(56 * 56, 256, 64): (3648, 3456, 9984),
    Product(56 * 56, 256, 128): (3648, 3520, 9984),
    Product(28 * 28, 128, 128, 9): (6480, 5840, 6656),
    Product(28 * 28, 128, 512): (2336, 2592, 5120),
    Product(28 * 28, 256, 512): (2592, 2592, 6144),
    Product(28 * 28, 512, 128): (2592, 2336, 4096),
    Product(28 * 28, 512, 256): (3539, 3146, 4096),
    Product(14 * 14, 256, 256, 9): (6372, 6372, 2756),
    Product(14 * 14, 256, 1024): (2832, 3539, 2832),
    Product(14 * 14, 512, 1024): (5664, 5664, 3856),
    Product(14 * 14, 1024, 256): (3539, 2832, 1476),
    Product(14 * 14, 1024, 512): (14156, 12583, 2952),
    Product(7 * 7, 512, 512, 9): (20196, 20196, 9826),
    Product(7 * 7, 512, 2048): (8976, 14156, 6536),
    Product(7 * 7, 1024, 2048): (17952, 17952, 10632),
    Product(7 * 7, 2048, 512): (14156, 8976, 4706),
    Product(1, 2048, 1000): (16416, 27708, 9220),
}


def cycles(layer: Product, rows: int | None = None) -> tuple[int, int, int]:
    """Forward, gradient of the input, gradient of the weights on the array."""
    rows = rows or layer.rows
    inputs, outputs = layer.kernel * layer.inputs, layer.kernel * layer.outputs
    forward = _tiles(inputs, layer.outputs) * (rows + min(inputs, SIDE) + SIDE)
    back = _tiles(outputs, layer.inputs) * (rows + min(layer.outputs, SIDE) + SIDE)
    weights = _tiles(rows, layer.outputs) * (inputs + min(rows, SIDE) + SIDE)
    return forward, back, weights


def _tiles(deep: int, wide: int) -> int:
    return math.ceil(deep / SIDE) * math.ceil(wide / SIDE)


def resnet_152() -> list[Product]:
    """Its layers on one image; the first block of a stage narrows before it strides, as in the file."""
    layers, inputs = [Product(112 * 112, 3, 64, 49)], 64
    for stage, blocks in enumerate((3, 8, 36, 3)):
        width, pixels = 64 << stage, (56 >> stage) ** 2
        for block in range(blocks):
            narrow = Product(4 * pixels if stage and not block else pixels, inputs, width)
            layers += [narrow, Product(pixels, width, width, 9), Product(pixels, width, 4 * width)]
            layers += [Product(pixels, inputs, 4 * width)] if not block else []
            inputs = 4 * width
    return [*layers, Product(1, 2048, 1000)]


def gnmt(rows: int) -> list[Product]:
    """The matrices of GNMT as in our workload: 8 + 8 LSTM layers of 1024, attention, 32,000 words."""
    hidden = 1024
    encoder = [(2, 4), (2, 4), (3, 4), *[(2, 4)] * 6]
    shapes = [*encoder, (2, 1), *[(3, 4)] * 8]
    return [*(Product(rows, i * hidden, o * hidden) for i, o in shapes), Product(rows, hidden, 32_000)]


def dlrm(rows: int) -> list[Product]:
    """The matrices of dlrm-large."""
    stacks = (1600, *[1024] * 6, 64), (4160, *[2048] * 11, 1)
    return [Product(rows, *pair) for stack in stacks for pair in pairwise(stack)]


def on_the_array(name: str, layers: list[Product], value_bytes: int) -> TextWorkload:
    """A data-parallel iteration whose gradients, those of our workload of that name, are sent at once, at its end."""
    sent = Sent(CollectiveKind.ALL_REDUCE, workload(name).params * value_bytes)
    timed = []
    for number, layer in enumerate(layers):
        forward, back, weights = (one / NS_PER_S for one in cycles(layer))
        timed.append(TimedLayer(name, forward, NOTHING, back, NOTHING, weights, NOTHING if number else sent))
    return TextWorkload(name, "DATA", 1, tuple(timed))


def main() -> None:
    """The file against the array; then gains."""
    print("python -m bench.collective_arrays")
    hits = [
        [ours == theirs for ours, theirs in zip(cycles(layer), found, strict=True)] for layer, found in FILE.items()
    ]
    parts = [sum(column) for column in zip(*hits, strict=True)]
    print(f"one image: {sum(parts)} of {3 * len(FILE)} times to the cycle (forward, input, weights: {parts})")
    other = [cycles(layer, 32 * layer.rows) == found for layer, found in FILE.items()]
    print(f"32 images: {sum(other)} of {len(FILE)} layers")
    print("themis-scf@64 against baseline@64, bandwidth-bound, gradients at once: mean (largest) gain, computation")
    usual = Settings(64, 1.0, ALL_AT_ONCE, 1, 2)
    for label, name, layers in (
        ("resnet-152, 1 image", "resnet-152", resnet_152()),
        ("gnmt, 128 rows", "gnmt", gnmt(128)),
        ("dlrm-large, 512 rows", "dlrm-large", dlrm(512)),
    ):
        for value_bytes in (2, 4):
            model = on_the_array(name, layers, value_bytes)
            mean, most, _ = gains_of(model, usual)
            told = f"{mean:.3f} ({most:.3f})   {1e3 * model.compute_s:.2f} ms"
            print(f"array, 1 GHz   {label:22} {8 * value_bytes} bit   {told}   published {PUBLISHED[name]}")
    for label, name, samples in (
        ("1 image", "resnet-152", 1),
        ("2 images", "resnet-152", 2),
        ("32 images", "resnet-152", 32),
    ):
        for tflops in (DLRM_TFLOPS, A100_TFLOPS):
            model = replace(workload(name), samples=samples)
            mean, most, _ = gains_of(model, replace(usual, tflops=tflops))
            print(
                f"{tflops:.0f} Tflop/s    {name}, {label:10} 16 bit   {mean:.3f} ({most:.3f})   published {PUBLISHED[name]}"
            )
    for tflops in (DLRM_TFLOPS, A100_TFLOPS):
        for tokens in (128, 640, 6400):
            model = replace(workload("gnmt"), samples=1)
            model = replace(
                model, layers=tuple(replace(one, forward_flop=one.forward_flop * tokens / 50) for one in model.layers)
            )
            mean, most, _ = gains_of(model, replace(usual, tflops=tflops))
            print(
                f"{tflops:.0f} Tflop/s    gnmt, {tokens} tokens   16 bit   {mean:.3f} ({most:.3f})   published {PUBLISHED['gnmt']}"
            )


if __name__ == "__main__":
    main()
