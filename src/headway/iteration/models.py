"""Known models: the communication volume per second of computation.

Only models that were measured on several servers are here: those of Rubick (Zhang et al., profiles of the public artifact), on A800s.
Gradients have 2 bytes per parameter (sizes as the paper lists them); those of LLaMA-30B are cut over the five pipeline stages of its most
frequent plan. Seconds of computation are those of one iteration on the 8 GPUs of one server, or with the most frequent plan of the LLaMA
models. The part of the communication that does not hide behind computation is the median of our fits at 8 GPUs on two servers or more,
four fifths (`python -m bench.iteration_model` fits them; image models, by Pollux, hide three quarters).

Other models have the part of their time that vClos publishes for their family (sim/models/communication.py).
"""

from dataclasses import dataclass
from typing import Final

EXPOSED: Final = 0.8
BITS: Final = 16  # of a gradient


@dataclass(frozen=True, slots=True)
class TrainingModel:
    """One model."""

    gradient_gbit: float
    compute_s: float
    exposed: float

    @property
    def volume(self) -> float:
        """Gbit that do not hide, per second of computation."""
        return self.gradient_gbit * self.exposed / self.compute_s


def _model(parameters: float, compute_s: float, stages: int = 1) -> TrainingModel:
    return TrainingModel(parameters * BITS / 1e9 / stages, compute_s, EXPOSED)


MODELS: Final[dict[str, TrainingModel]] = {
    "vit": _model(86e6, 0.049),
    "bert": _model(336e6, 0.158),
    "roberta": _model(355e6, 0.234),
    "t5": _model(1.2e9, 0.320),
    "gpt2": _model(1.5e9, 0.626),
    "llama7": _model(7e9, 1.13),
    "llama30": _model(30e9, 2.66, stages=5),
}
_NO_MARKS = str.maketrans("", "", "-_ \t")


def find_model(name: str) -> TrainingModel | None:
    """The model of that name, None: not known."""
    return MODELS.get(name.lower().translate(_NO_MARKS))
