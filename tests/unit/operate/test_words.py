"""What tables show stays whole on a narrow terminal."""

import io

from rich.console import Console

from headway.cli.tables.job_details import explanation


def test_the_numbers_of_a_receipt_are_shown_whole_on_80_columns() -> None:
    """They were cut to `2.49…`, under the words `the sum, exactly`."""
    answer = {
        "job_id": 1,
        "state": "HELD",
        "reason": "held",
        "message": "a person holds it",
        "numbers": {
            "gpus_asked": 8.0,
            "gpus_total": 8.0,
            "gpus_free": 6.0,
            "most_free_on_a_node": 4.0,
            "queue_level": 0.0,
            "service_gpu_s": 330.0,
        },
        "ahead": [],
        "would_change": [],
        "wait_us": 2_512_000,
        "receipt_us": {"held": 2_490_000, "stopping": 19_000, "gpus": 3_000},
    }
    told = io.StringIO()
    Console(file=told, width=80).print(explanation(answer))
    lines = [" ".join(line.split()) for line in told.getvalue().splitlines()]
    for row in ("held 2.490 s", "stopping 0.019 s", "gpus 0.003 s", "waited 2.512 s"):
        assert any(line.startswith(row) for line in lines), told.getvalue()
    assert max(map(len, told.getvalue().splitlines())) <= 80
