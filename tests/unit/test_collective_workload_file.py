"""Workload files in ASTRA-sim's format: what they say, what an iteration takes by hand, and what is refused."""

import json

import pytest
from typer.testing import CliRunner

from headway.cli.main import app
from headway.collectives.schedulers import schedule
from headway.collectives.simulate.cost import CollectiveKind
from headway.collectives.training.iteration import Settings, iterate
from headway.collectives.training.text_iteration import bucketed, dims_of
from headway.collectives.training.textfile import workload_from_text
from headway.collectives.training.workloads import workload
from headway.errors import BadInput
from headway.sim.network_files import topology_from

NETWORK = topology_from("switch:4:800Gbps:700ns,switch:8:400Gbps:1700ns")
AR = CollectiveKind.ALL_REDUCE


def text(head: str, *layers: str) -> str:
    return "\n".join([head, str(len(layers)), *layers]) + "\n"


DATA = text(
    "DATA",
    "conv\t-1\t1000\tNONE\t0\t2000\tNONE\t0\t3000\tALLREDUCE\t4000000\t10",
    "fc\t-1\t5000\tNONE\t0\t6000\tNONE\t0\t7000\tALLREDUCE\t8000000\t10",
)


def time_s(content: str, chunks: int = 1, bucket: int = 1, network=NETWORK) -> float:
    """The baseline with a fixed number of chunks."""
    rows = iterate(workload_from_text(content, "w.txt"), network, Settings(chunks=chunks, bucket_bytes=bucket))
    return next(row.time_s for row in rows if row.method == f"baseline@{chunks}")


def alone_s(size: int, kind=AR, network=NETWORK) -> float:
    return schedule(network, size, scheduler="baseline", collective=kind, chunks=1).time_s


def test_a_file_is_read():
    model = workload_from_text(DATA, "dir/small.txt")
    assert (model.name, model.parallelism, [layer.name for layer in model.layers]) == ("small", "DATA", ["conv", "fc"])
    # The gradient of conv's input is nobody's.
    assert model.compute_s == pytest.approx(22e-6)
    assert model.gradient_bytes == 12_000_000


def test_data_parallel_gradients_overlap_with_what_is_left_of_the_pass():
    """fc's gradients leave after 1 + 5 + 7 us; conv's wait for them, for they are ready after 9 us more."""
    first = 13e-6 + alone_s(8_000_000)
    assert alone_s(8_000_000) > 9e-6
    # One chunk at a time per dimension: the second collective follows the first on the first dimension, and so on.
    assert first < time_s(DATA) <= first + alone_s(4_000_000)
    one = 22e-6 + alone_s(12_000_000)
    assert time_s(DATA, bucket=10**9) == pytest.approx(one, rel=1e-6)


def test_slow_layers_hide_their_communication():
    slow = text(
        "DATA",
        "a -1 10 NONE 0 10 NONE 0 900000000 NONE 0 10",
        "b -1 10 NONE 0 10 NONE 0 10 ALLREDUCE 8000000 10",
    )
    assert time_s(slow) == pytest.approx(workload_from_text(slow, "w").compute_s, rel=1e-9)


def test_a_hybrid_blocks_for_activations_and_sends_gradients_on_the_other_dimensions():
    content = text(
        "HYBRID_TRANSFORMER model_parallel_NPU_group: 4",
        "q -1 100 ALLREDUCE 1000000 200 NONE 0 300 ALLREDUCE 2000000 10",
    )
    assert dims_of(workload_from_text(content, "w"), NETWORK) == ((0,), (1,))
    blocked = schedule(NETWORK.part((0,)), 1_000_000, scheduler="baseline", chunks=1).time_s
    sent = schedule(NETWORK.part((1,)), 2_000_000, scheduler="baseline", chunks=1).time_s
    assert time_s(content) == pytest.approx(600e-9 + blocked + sent, rel=1e-6)
    # For the first layer's input, too, the public loop computes, sends and waits.
    both = content.replace("200 NONE 0", "200 ALLREDUCE 1000000")
    assert time_s(both) == pytest.approx(600e-9 + 2 * blocked + sent, rel=1e-6)
    with pytest.raises(BadInput, match="over 5 NPUs"):
        time_s(content.replace(": 4", ": 5"))


@pytest.mark.parametrize(
    ("head", "inner"), [("MODEL", (0, 1)), ("HYBRID_DATA_MODEL", (0,)), ("HYBRID_MODEL_DATA", (1,))]
)
def test_weights_are_computed_while_activations_are_sent_and_the_next_layer_waits(head, inner):
    """The public loops block for inputs with HYBRID_TRANSFORMER only; and MODEL sends no gradients of weights."""
    part = NETWORK.part(inner)
    content = text(
        head,
        "a -1 100 NONE 0 200 ALLREDUCE 7000000 300 NONE 0 10",
        "b -1 100 NONE 0 200 ALLREDUCE 1000000 WEIGHT ALLREDUCE 8 10",
    )
    sent = schedule(part, 1_000_000, scheduler="baseline", chunks=1).time_s
    for weight_ns in (1000, 500_000):
        hidden = max(sent, weight_ns * 1e-9)
        # The first layer's input is computed and not sent.
        told = time_s(content.replace("WEIGHT", str(weight_ns)))
        assert told == pytest.approx(900e-9 + hidden, abs=2e-12 if head == "MODEL" else 3e-5)
        if head == "MODEL":
            assert told == time_s(content.replace("WEIGHT ALLREDUCE 8", f"{weight_ns} NONE 0"))


def test_data_parallel_sends_nothing_but_gradients_of_weights():
    assert time_s(DATA.replace("1000\tNONE\t0", "1000\tALLREDUCE\t9000000")) == time_s(DATA)


@pytest.mark.parametrize("head", ["DATA", "MODEL", "HYBRID_DATA_MODEL", "HYBRID_TRANSFORMER 4", "HYBRID_DLRM 0"])
def test_no_iteration_takes_less_than_its_computation(head):
    """What is exposed was once negative, by the gradient of the first layer's input."""
    model = workload_from_text(DATA.replace("DATA", head), "w")
    for row in iterate(model, NETWORK, Settings(chunks=4)):
        assert row.exposed_s >= -1e-12


def test_dlrm_exchanges_behind_its_bottom_layers():
    content = text(
        "HYBRID_DLRM 1",
        "emb -1 0 ALLTOALL 1000000 0 ALLTOALL 1000000 0 NONE 0 1",
        "bottom -1 900000 NONE 0 900000 NONE 0 0 NONE 0 1",
        "top -1 10 NONE 0 10 NONE 0 10 ALLREDUCE 1000 1",
    )
    assert alone_s(1_000_000, CollectiveKind.ALL_TO_ALL) < 900e-6
    assert time_s(content) == pytest.approx(1.80003e-3, rel=1e-3)
    quick = content.replace("900000", "10")
    both = 2 * alone_s(1_000_000, CollectiveKind.ALL_TO_ALL)
    assert both <= time_s(quick) <= both + alone_s(1000) + 1e-6


def test_buckets_keep_every_byte():
    model = workload_from_text(DATA, "w")
    for bucket in (1, 5_000_000, 10**9):
        assert bucketed(model, bucket).gradient_bytes == model.gradient_bytes
    assert [layer.weight.size_bytes for layer in bucketed(model, 10**9).layers] == [12_000_000, 0]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("DATA", "DATTA", "w.txt:1: unknown parallelism 'DATTA': did you mean 'DATA'"),
        ("\n2\n", "\n3\n", "names 3 layers, and 2 follow"),
        ("\n2\n", "\nx\n", "w.txt:2: number of layers 'x'"),
        ("3000", "-3000", "w.txt:3: weight gradient time '-3000'"),
        ("3000", "3e3", "whole number"),
        ("3000", "9" * 30, "whole number"),
        ("3000", "²", "whole number"),
        ("ALLREDUCE\t4", "ALLREDUC\t4", "w.txt:3: weight gradient: unknown kind 'ALLREDUC': did you mean 'ALLREDUCE'"),
        ("\t10\nfc", "\nfc", "w.txt:3: a layer has 12 fields, and this has 11"),
        ("DATA", "HYBRID_TRANSFORMER", "NPUs of a model ''|NPUs of a model 'HYBRID"),
        ("DATA", "HYBRID_DLRM 7", "last bottom layer is 7"),
        (DATA, "DATA\n", "it has 1 lines"),
    ],
)
def test_damaged_files_are_refused_with_line_and_field(old, new, said):
    with pytest.raises(BadInput, match=said) as caught:
        workload_from_text(DATA.replace(old, new, 1), "w.txt")
    assert "\n" not in str(caught.value)


def test_what_takes_too_long_or_nothing_at_all_is_refused():
    """A year of computation ran over 64 bits and was told as operations in a circle; nothing at all was divided by."""
    day = 86_400 * 10**9
    with pytest.raises(BadInput, match="would take months"):
        time_s(text("DATA", *[f"l{i} -1 {day} NONE 0 {day} NONE 0 {day} ALLREDUCE 8 1" for i in range(100)]))
    with pytest.raises(BadInput, match="nothing is computed or sent"):
        time_s(text("MODEL", "l -1 0 NONE 0 0 NONE 0 0 ALLREDUCE 8 1"))
    many = text("DATA", *[f"l{i} -1 1 NONE 0 1 NONE 0 1 ALLREDUCE 1000000 1" for i in range(2000)])
    with pytest.raises(BadInput, match="larger buckets"):
        time_s(many, chunks=64)
    with pytest.raises(BadInput, match=r"unknown kind 'A{1,200}\.\.\.'"):
        workload_from_text(DATA.replace("ALLREDUCE", "A" * 10**6), "w.txt")


def test_the_command_reads_a_file_and_states_the_precision(tmp_path):
    path = tmp_path / "small.txt"
    path.write_text(DATA)
    line = ["collective", "iteration", str(path), "--topology", "2D-SW_SW", "--json"]
    told = json.loads(CliRunner().invoke(app, line).stdout)
    assert told["gradients"] == "bytes as in the file"
    assert [row["compute_s"] for row in told["rows"]] == pytest.approx([22e-6] * len(told["rows"]))
    line = [
        "collective",
        "iteration",
        "gnmt",
        "--topology",
        "2D-SW_SW",
        "--precision",
        "fp32",
        "--bandwidth-bound",
        "--json",
    ]
    full = json.loads(CliRunner().invoke(app, line).stdout)
    assert full["gradients"] == "fp32 gradients"
    assert (
        full["rows"][0]["exposed_s"]
        > json.loads(CliRunner().invoke(app, [*line[:5], *line[7:]]).stdout)["rows"][0]["exposed_s"]
    )


def test_the_large_dlrm_has_the_gradients_of_the_published_file():
    assert workload("dlrm-large").params * 2 == 114_823_168
