"""Training workloads, layer by layer, from the formulas of their architectures (Themis, section 5.2, and a newer LLM).

A convolution has k^2 c_in c_out parameters and two operations per parameter and output pixel; a matrix has two operations
per parameter and token (or sample); a backward pass costs twice the forward one. Parameters and gradients are 2 bytes
each. Normalisations, biases and pooling are left out: below 1 % of both.
"""

import itertools
from dataclasses import dataclass

from headway.errors import unknown

BYTES_PER_VALUE = 2
# Of one sequence.
LLAMA_TOKENS = 8192


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer for one sample: forward operations, parameters, and what it communicates besides gradients.

    `tensor_bytes` is each of two activations that tensor-parallel ranks all-reduce, in the forward and again in the
    backward pass. `exchange_bytes` is an all-to-all: the layer waits for one issued when the iteration began, and
    issues another after its backward pass.
    """

    name: str
    params: int
    forward_flop: float
    tensor_bytes: int = 0
    exchange_bytes: int = 0


@dataclass(frozen=True, slots=True)
class TrainingWorkload:
    """A model and how it is trained. Wishes for tensor and pipeline parallelism are met by whole dimensions, at most.

    `zero` is the stage: 0 all-reduces gradients; 1 and 2 reduce-scatter them and all-gather parameters after the step;
    3 also gathers each layer's parameters before its forward and backward pass.
    """

    name: str
    layers: tuple[Layer, ...]
    samples: int
    tensor: int = 1
    pipeline: int = 1
    microbatches: int = 1
    zero: int = 0
    activation_bytes: int = 0

    @property
    def params(self) -> int:
        """All parameters of the model."""
        return sum(layer.params for layer in self.layers)


def _conv(name: str, kernel: int, inputs: int, outputs: int, pixels: int) -> Layer:
    params = kernel * kernel * inputs * outputs
    return Layer(name, params, 2.0 * params * pixels)


def _matrix(name: str, inputs: int, outputs: int, tokens: int = 1) -> Layer:
    return Layer(name, inputs * outputs, 2.0 * inputs * outputs * tokens)


def resnet(name: str, blocks: tuple[int, int, int, int]) -> TrainingWorkload:
    """Bottleneck ResNet on 224x224 images (He et al., table 1): 1x1, 3x3, 1x1 per block, widths doubling per stage."""
    layers = [_conv("stem", 7, 3, 64, 112 * 112)]
    inputs = 64
    for stage, count in enumerate(blocks):
        width, side = 64 << stage, 56 >> stage
        for block in range(count):
            label, pixels = f"stage{stage + 1}.{block + 1}", side * side
            layers += [
                _conv(f"{label}.reduce", 1, inputs, width, pixels),
                _conv(f"{label}.spatial", 3, width, width, pixels),
                _conv(f"{label}.expand", 1, width, 4 * width, pixels),
            ]
            if block == 0:
                layers.append(_conv(f"{label}.shortcut", 1, inputs, 4 * width, pixels))
            inputs = 4 * width
    layers.append(_matrix("classifier", 2048, 1000))
    # 32 images per NPU, as in the paper's evaluation.
    return TrainingWorkload(name, tuple(layers), samples=32)


def gnmt() -> TrainingWorkload:
    """GNMT (Wu et al.): 8 + 8 LSTM layers of 1024, the first bidirectional, attention fed to all of the decoder."""
    hidden, vocabulary, tokens = 1024, 32_000, 50

    def lstm(name: str, inputs: int, copies: int = 1) -> Layer:
        return _matrix(name, copies * (inputs + hidden), 4 * hidden, tokens)

    embedding = Layer("embedding", vocabulary * hidden, 0.0)
    encoder = [lstm("encoder1", hidden, 2), lstm("encoder2", 2 * hidden)]
    encoder += [lstm(f"encoder{number}", hidden) for number in range(3, 9)]
    decoder = [lstm(f"decoder{number}", 2 * hidden) for number in range(1, 9)]
    attention = _matrix("attention", 2 * hidden, hidden, tokens)
    output = _matrix("output", hidden, vocabulary, tokens)
    layers = (embedding, *encoder, Layer("target", vocabulary * hidden, 0.0), attention, *decoder, output)
    # 128 sentences per NPU, of 50 tokens on average.
    return TrainingWorkload("gnmt", layers, samples=128)


def _dlrm(
    name: str, tables: int, width: int, samples: int, bottom: tuple[int, ...], top: tuple[int, ...]
) -> TrainingWorkload:
    """Two stacks of matrices and embedding tables spread over all NPUs, whose rows are exchanged by all-to-alls."""
    exchange_bytes = tables * width * samples * BYTES_PER_VALUE
    layers = [_matrix(f"bottom{i + 1}", *pair) for i, pair in enumerate(itertools.pairwise(bottom))]
    layers.append(Layer("interaction", 0, 2.0 * (tables + 1) ** 2 * width, 0, exchange_bytes))
    layers += [_matrix(f"top{i + 1}", *pair) for i, pair in enumerate(itertools.pairwise(top))]
    return TrainingWorkload(name, tuple(layers), samples=samples)


def dlrm() -> TrainingWorkload:
    """DLRM (Naumov et al.; sizes of MLPerf): 26 tables of width 128."""
    return _dlrm("dlrm", 26, 128, 512, (13, 512, 256, 128), (479, 1024, 1024, 512, 256, 1))


def dlrm_large() -> TrainingWorkload:
    """A DLRM of the size that Themis's authors simulate: 57.4 million parameters in its matrices.

    The widths are worked out from the layer times and the 114,823,168 bytes of gradients (16 bit) in the workload file of
    their LIBRA: 1600 to 64 by way of six layers of 1024, and 4160 to 1 by way of eleven of 2048.
    """
    return _dlrm("dlrm-large", 16, 64, 512, (1600, *[1024] * 6, 64), (4160, *[2048] * 11, 1))


def transformer_1t() -> TrainingWorkload:
    """A GPT of 10^12 parameters (Narayanan et al.): 128 layers of 25600, sequences of 2048; tensor parallel and
    ZeRO-2."""
    hidden, tokens, vocabulary = 25_600, 2048, 51_200
    layers = [Layer("embedding", vocabulary * hidden, 2.0 * vocabulary * hidden * tokens)]
    flop = 2.0 * 12 * hidden * hidden * tokens + 4.0 * tokens * tokens * hidden
    activation = tokens * hidden * BYTES_PER_VALUE
    layers += [Layer(f"block{number + 1}", 12 * hidden * hidden, flop, activation) for number in range(128)]
    return TrainingWorkload("transformer-1t", tuple(layers), samples=16, tensor=128, zero=2)


def _llama(hidden: int, wide: int, blocks: int, tensor_bytes: int = 0) -> tuple[Layer, ...]:
    """The layers of a present-day dense LLM: grouped queries, gated MLP."""
    tokens, vocabulary, groups = LLAMA_TOKENS, 128_256, 1024
    params = 2 * hidden * hidden + 2 * hidden * groups + 3 * hidden * wide
    flop = 2.0 * params * tokens + 4.0 * tokens * tokens * hidden
    middle = [Layer(f"block{number + 1}", params, flop, tensor_bytes) for number in range(blocks)]
    return Layer("embedding", vocabulary * hidden, 0.0), *middle, _matrix("output", hidden, vocabulary, tokens)


def llm_405b() -> TrainingWorkload:
    """A large LLM (the sizes of Llama 3 405B): tensor 8, pipeline 16, ZeRO-1."""
    activation = LLAMA_TOKENS * 16_384 * BYTES_PER_VALUE
    return TrainingWorkload("llm-405b", _llama(16_384, 53_248, 126, activation), 1, 8, 16, 32, 1, activation)


def llm_8b() -> TrainingWorkload:
    """A small LLM (the sizes of Llama 3 8B), fully sharded: ZeRO-3 over all NPUs."""
    return TrainingWorkload("llm-8b", _llama(4096, 14_336, 32), samples=1, zero=3)


WORKLOADS = {
    "resnet-50": lambda: resnet("resnet-50", (3, 4, 6, 3)),
    "resnet-152": lambda: resnet("resnet-152", (3, 8, 36, 3)),
    "gnmt": gnmt,
    "dlrm": dlrm,
    "dlrm-large": dlrm_large,
    "transformer-1t": transformer_1t,
    "llm-405b": llm_405b,
    "llm-8b": llm_8b,
}


def workload(name: str) -> TrainingWorkload:
    """The workload of that name, or an error that names the closest."""
    if name.lower() not in WORKLOADS:
        raise unknown("workload", name, WORKLOADS)
    return WORKLOADS[name.lower()]()
