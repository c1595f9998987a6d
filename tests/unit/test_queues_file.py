"""Queues files: what they say, and one line for every mistake in them."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headway.cli.main import app
from headway.cluster.queues import Access, QueueLimits
from headway.cluster.queues_file import queues_from
from headway.errors import BadInput

EXAMPLE = Path(__file__).parents[2] / "examples" / "queues.yaml"


def test_the_example_says_what_it_means() -> None:
    made = queues_from(EXAMPLE)
    assert (made.notice_s, made.half_life_s, made.horizon_s) == (600.0, 604800.0, 600.0)
    assert made.leaves == ["production", "guests", "vision", "speech"]
    assert [queue.name for queue in made.as_tree()] == ["research", "vision", "speech", "production", "guests"]
    assert made.find("nobody knows").name == "guests"
    assert made["vision"].per_user == QueueLimits(running=4, waiting=50)
    assert made.shares() == pytest.approx(
        {"": 1, "research": 0.5, "production": 0.25, "guests": 0.25, "vision": 0.25, "speech": 0.25}
    )
    # Of 40 GPUs, 16 are for nobody: guests that cannot be preempted get those, vision also its own and what is left of research's.
    assert made.largest_job("guests", True, 40) == 40
    assert made.largest_job("guests", False, 40) == 16
    assert made.largest_job("vision", False, 40) == 8 + 4 + 16
    assert made.largest_job("production", True, 40) == 24


def test_a_queue_with_nothing_behind_its_name_has_the_defaults(tmp_path: Path) -> None:
    path = tmp_path / "q.yaml"
    path.write_text("queues:\n  a:\n  '7': {weight: 3}\n")
    assert queues_from(path).shares() == {"": 1.0, "a": 0.25, "7": 0.75}


def test_users_and_groups_may_submit(tmp_path: Path) -> None:
    path = tmp_path / "q.yaml"
    path.write_text("queues:\n  a: {users: [root, adda], groups: [root, no-such-group]}\n  b:\n  c: {users: []}\n")
    made = queues_from(path)
    assert made["a"].access == Access(("root", "adda"), ("root", "no-such-group"))
    assert made["b"].access is None
    assert made["c"].access == Access()
    assert made.unknown_accounts() == (
        f"{path}: this machine has no user adda and group no-such-group: check the spelling, or create the accounts"
    )
    path.write_text("queues: {a: {users: [root]}}")
    assert queues_from(path).unknown_accounts() == ""


def test_a_simulation_takes_the_jobs_of_all_users(tmp_path: Path) -> None:
    jobs, path = tmp_path / "jobs.csv", tmp_path / "q.yaml"
    jobs.write_text("job_id,submit_s,gpus,duration_s,user,queue\n1,0,2,10,vc-17,a\n")
    path.write_text("queues: {a: {users: [root]}}")
    ran = CliRunner().invoke(app, ["simulate", str(jobs), "--cluster", "1x4", "--queues", str(path), "--json"])
    assert ran.exit_code == 0


def test_a_job_that_names_no_queue_is_refused_by_the_queue_that_it_goes_to(tmp_path: Path) -> None:
    jobs, path = tmp_path / "jobs.csv", tmp_path / "q.yaml"
    jobs.write_text("job_id,submit_s,gpus,duration_s\n1,0,2,10\n")
    path.write_text("queues: {default: {limits: {gpus: 1}}}")
    ran = CliRunner().invoke(app, ["simulate", str(jobs), "--cluster", "1x4", "--queues", str(path)])
    assert ran.exit_code
    assert "queue 'default' gives at most 1" in str(ran.exception)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "queues: {a: {weight: 0}}",
            "line 1: queues.a.weight: should be greater than or equal to 0.000001, got 0, such as weight: 2",
        ),
        (
            "queues: {a: {weight: 1e308}, b: {weight: 1e308}}",
            "queues.a.weight: should be less than or equal to 1000000",
        ),
        ('queues: {"a\\e[31m": {}}', "queue 'a\\x1b[31m': a name is at most 256 printable characters"),
        ('queues: {"a\\nb": {}}', "queue 'a\\nb': a name is at most 256 printable characters"),
        ('queues: {"(no queue)": {}}', "choose another name"),
        ("queues: {a: {guarantee: 4}}", "unknown key 'guarantee'"),
        (
            "queues:\n  a:\n    users: ada",
            "line 3: queues.a.users: should be a valid list, got 'ada', such as users: [ada]",
        ),
        (  # a list whose entries were all commented out admitted everybody
            "queues:\n  a:\n    users:\n    # - ada",
            "line 3: queues.a.users: the list is missing: write [] to admit only operators, or leave the key out",
        ),
        ("queues:\n  a:\n    groups: {ml: 1}", "line 3: queues.a.groups: should be a valid list"),
        (
            "queues:\n  a:\n    users:\n      - ada\n      - 1001",
            "line 5: queues.a.users[1]: the name 1001 is not text in YAML: write '1001' in quotes",
        ),
        ("queues:\n  a: {users: ['']}", "line 2: queues.a.users[0]: '' is not the name of a user or group"),
        (
            'queues: {a: {groups: ["m\\el"]}}',
            "line 1: queues.a.groups[0]: 'm\\x1bl' is not the name of a user or group",
        ),
        ("queues: {}", "queues is empty: at least one is needed"),
        ("queues: {7: {}}", "the name 7 is not text in YAML: write '7' in quotes"),
        ("queues: [a]", "queues: should be a valid dictionary, got ['a']"),
        (
            "queues: {a: {limits: 3}}",
            "queues.a.limits: should be a mapping with some of the keys running, waiting, gpus, got 3",
        ),
        ("queues: {a: {weight: .nan}}", "queues.a.weight: should be a finite number, got nan"),
        ("queues: {a: {parent: b}}", "queues.a.parent: unknown queue 'b'"),
        ("queues: {a: {parent: b}, b: {parent: a}}", "or it is above itself"),
        ("queues: {a: {}, b: {parent: a, guaranteed_gpus: 4}}", "set its guaranteed_gpus to 4 at least"),
        ("queues: {a: {guaranteed_gpus: 4, limits: {gpus: 2}}}", "is guaranteed 4 GPUs and limited to 2"),
        ("others: z\nqueues: {a: {}}", "others: unknown queue 'z'"),
        ("notice: soon\nqueues: {a: {}}", "notice: 'soon' is not a time"),
        ("half_life: soon\nqueues: {a: {}}", "half_life: 'soon' is not a time"),
        ("half_life: 0\nqueues: {a: {}}", "half_life: must be more than 0: write 7d, or inf"),
        ("horizon: 0s\nqueues: {a: {}}", "horizon: must be more than 0: write 10m"),
        ("horizon: inf\nqueues: {a: {}}", "horizon: 'inf' is not a time"),
        ("queues: {a: {per_user: {gpus: 1}}, b: {parent: a}}", "limits per_user belong to those that jobs are in"),
        (
            "queues: {a: {}}\nreservations: [{nodes: [n0], queue: b, from: 1h, to: 2h}]",
            "reservations.queue: unknown queue 'b'",
        ),
        (
            "queues: {a: {}}\nreservations: [{nodes: [n0], queue: a, from: 2h, to: 1h}]",
            "`to` must be later than `from`",
        ),
        (
            "queues: {a: {}}\nreservations: [{nodes: [n0], queue: a, from: 2h, to: 2027-01-01}]",
            "both dates, or both times",
        ),
        (
            "queues: {a: {}}\nreservations: [{nodes: [n0], queue: a, from: 0, to: 2h}, {nodes: [n0], queue: a, from: 1h, to: 3h}]",
            "node 'n0' is reserved twice at the same time",
        ),
    ],
)
def test_mistakes_are_one_line_with_the_file(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "queues.yaml"
    path.write_text(text)
    with pytest.raises(BadInput) as raised:
        queues_from(path)
    assert words in str(raised.value)
    assert str(path) in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_date_is_local_time_and_a_manager_wants_one(tmp_path: Path) -> None:
    path = tmp_path / "queues.yaml"
    path.write_text(
        "queues: {a: {}}\nreservations: [{nodes: [n000], queue: a, from: 2027-01-31T08:00:00Z, to: 2027-02-01}]"
    )
    made = queues_from(path)
    assert made.bookings[0].begin == 1801382400.0
    assert len(made.booked(["n000"], dated=True)) == 1
    with pytest.raises(BadInput, match="write a time from the trace's time 0, such as 36h"):
        made.booked(["n000"], dated=False)
    with pytest.raises(BadInput, match=r"reservations\.nodes: unknown node 'n000'"):
        made.booked(["x"], dated=True)


TRACE = "job_id,submit_s,gpus,duration_s,user,queue\n" + "".join(
    f"{i},{i},{1 + i % 4},{100 + 7 * i},u{i % 3},{['vision', 'speech', 'production', 'elsewhere'][i % 4]}\n"
    for i in range(60)
)


def test_simulate_with_the_example_tells_who_had_what(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text(TRACE)
    words = [
        "simulate",
        str(tmp_path / "jobs.csv"),
        "--cluster",
        "5x8",
        "--queues",
        str(EXAMPLE),
        "--out",
        str(tmp_path / "out"),
        "--json",
    ]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    found = {one["queue"]: one for one in json.loads(done.stdout)["queues"]}
    assert {name: one["jobs"] for name, one in found.items()} == {
        **{"research": 30, "vision": 15, "speech": 15},
        **{"production": 15, "guests": 15},
    }
    assert sum(found[name]["used_gpu_h"] for name in ("research", "production", "guests")) > 0
    assert found["research"]["used_gpu_h"] == pytest.approx(
        found["vision"]["used_gpu_h"] + found["speech"]["used_gpu_h"]
    )
    page = (tmp_path / "out" / "report.html").read_text()
    assert "Queues under headway" in page
    assert "borrowed GPU" in page
    assert (tmp_path / "out" / "jobs.csv").read_text().startswith("job_id,user,queue,gpus")
    explained = [
        line for line in (tmp_path / "out" / "journal.jsonl").read_text().splitlines() if '"Explained"' in line
    ]
    assert all(json.loads(line)["queue"] in found for line in explained)


def test_jobs_that_a_queue_could_never_run_and_guarantees_beyond_the_cluster_are_refused(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text(TRACE.replace("elsewhere", "nowhere"))
    (tmp_path / "q.yaml").write_text("queues: {vision: {limits: {gpus: 2}}, default: {}}\nothers: default\n")
    (tmp_path / "large.yaml").write_text("queues: {vision: {guaranteed_gpus: 99}}\nothers: vision\n")
    (tmp_path / "none.yaml").write_text("queues: {vision: {}}\n")
    for name, words in (
        ("large.yaml", "the queues are guaranteed 99 GPUs together, and 5x8 has 40"),
        ("none.yaml", "jobs.csv: unknown queue 'speech': one of: vision"),
    ):
        done = CliRunner().invoke(
            app, ["simulate", str(tmp_path / "jobs.csv"), "--cluster", "5x8", "--queues", str(tmp_path / name)]
        )
        assert isinstance(done.exception, BadInput)
        assert words in str(done.exception)
    (tmp_path / "jobs.csv").write_text("job_id,submit_s,gpus,duration_s,queue\n0,0,4,10,vision\n1,0,1,10,vision\n")
    words = ["simulate", str(tmp_path / "jobs.csv"), "--cluster", "5x8", "--queues", str(tmp_path / "q.yaml")]
    done = CliRunner().invoke(app, words)
    assert "job 0 asks for 4 GPUs, and queue 'vision' gives at most 2" in str(done.exception)
    assert CliRunner().invoke(app, [*words, "--skip-impossible"]).exit_code == 0
