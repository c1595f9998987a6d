"""Files of samples, such as the GPU-seconds of finished jobs: one number per line."""

import numpy as np
from numpy.typing import NDArray

from headway.errors import BadInput
from headway.io.files import read_file
from headway.io.options import number

MOST_BYTES = 64 << 20  # far above any use: the 82,000 finished jobs of the Philly trace are about 1 MB


def read_samples(name: str, path: str) -> NDArray[np.float64]:
    """Read the value of option `name`: a file with one number of GPU-seconds per line."""
    try:
        lines = [line.strip() for line in read_file(path, MOST_BYTES).decode("utf-8").splitlines()]
    except (OSError, ValueError) as error:
        raise BadInput(f"cannot read the {name} {path}: {getattr(error, 'strerror', None) or error}") from None
    samples = [_sample(path, line, text) for line, text in enumerate(lines, 1) if text]
    if not samples:
        raise BadInput(f"{path} has no samples: write one number of GPU-seconds per line")
    return np.array(samples)


def _sample(path: str, line: int, text: str) -> float:
    try:
        return number("", text)
    except BadInput:
        raise BadInput(f"{path}, line {line}: {text!r} is not a number of GPU-seconds above 0") from None
