"""`headway simulate`, `compare` and `policies` as a person types them: JSON, files, and every mistake in one line, nothing left behind."""

import csv
import json
import subprocess
import sys

import pytest
from tests.waiting import COMPILES_S, PATIENCE_S

from headway.placement import TABLE as PLACEMENTS
from headway.policies import MODULES as POLICIES

HEAD = "job_id,submit_s,gpus,duration_s,user,model\n"
GOOD = HEAD + "".join(f"j{i},{i * 60},{1 + i % 4},{100 + 40 * i},u{i % 3},VGG16\n" for i in range(30))
# The names of interface.md, in its order.
FIRST = ("policy", "placement", "network", "collective", "trace", "cluster", "seed", "jobs", "finished")
FIGURES = ("jct_s", "queue_s", "makespan_s", "gpu_utilisation", "preemptions", "preemption_cost_s", "events", "wall_s")
SUMMARY = [*FIRST, *FIGURES]
SPREAD = ["mean", "median", "p95", "p99", "max"]
JOB_COLUMNS = "job_id,user,gpus,submit_s,start_s,end_s,jct_s,queue_s,service_gpu_s,preemptions"


@pytest.fixture(scope="module", autouse=True)
def compiled():
    """The engine on disk, so that no test sees the line that says it is being compiled."""
    from headway.sim.api import simulate

    simulate("synthetic:tiresias-480?jobs=5", "15x4")


@pytest.fixture
def good(tmp_path):
    path = tmp_path / "in" / "good.csv"
    path.parent.mkdir()
    path.write_text(GOOD)
    return path


# ---- simulate


def test_json_has_exactly_the_figures_of_the_interface(run, good):
    code, out, err = run("simulate", good, "--cluster", "2x4", "--policy", "srtf", "--seed", 3, "--json")
    found = json.loads(out)
    assert (code, err) == (0, "")
    assert list(found)[: len(SUMMARY)] == SUMMARY
    assert list(found["jct_s"]) == list(found["queue_s"]) == SPREAD
    named = {"policy": "srtf", "placement": "consolidated", "network": "ideal", "collective": "none", "cluster": "2x4"}
    assert named.items() <= found.items()
    assert (found["seed"], found["jobs"], found["finished"]) == (3, 30, 30)
    assert found["trace"].endswith("good.csv")
    assert 0 < found["gpu_utilisation"] <= 1
    assert found["jct_s"]["median"] <= found["jct_s"]["p95"] <= found["jct_s"]["p99"] <= found["jct_s"]["max"]


def test_the_table_names_what_was_run(run, good):
    code, out, _ = run("simulate", good, "--cluster", "2x4", "--policy", "best-effort")
    assert code == 0
    assert "best-effort" in out
    assert not out.lstrip().startswith("{")


def test_out_writes_jobs_journal_summary_and_report(run, good, tmp_path):
    folder = tmp_path / "out"
    code, out, _ = run(
        "simulate", good, "--cluster", "2x4", "--policy", "srtf", "--preemption-cost", "30s", "--out", folder, "--json"
    )
    assert code == 0
    assert sorted(path.name for path in folder.iterdir()) == [
        "jobs.csv",
        "journal.jsonl",
        "receipts.csv",
        "report.html",
        "summary.json",
    ]
    printed, written = json.loads(out), json.loads((folder / "summary.json").read_text())
    assert {**written, "wall_s": 0} == {**printed, "wall_s": 0}
    check_jobs(folder / "jobs.csv", printed)
    check_journal(folder / "journal.jsonl", printed)
    assert "srtf" in (folder / "report.html").read_text()


def check_jobs(path, printed) -> None:
    """One row a job, that add up to the summary."""
    text = path.read_text()
    assert text.splitlines()[0] == JOB_COLUMNS
    rows = list(csv.DictReader(text.splitlines()))
    assert sorted(row["job_id"] for row in rows) == sorted(f"j{i}" for i in range(30))
    assert {row["user"] for row in rows} == {"u0", "u1", "u2"}
    times = [float(row["jct_s"]) for row in rows]
    assert sum(times) / len(times) == pytest.approx(printed["jct_s"]["mean"])
    assert sum(int(row["preemptions"]) for row in rows) == printed["preemptions"] > 0
    for row in rows:
        assert float(row["end_s"]) - float(row["submit_s"]) == pytest.approx(float(row["jct_s"]))
        number = int(row["job_id"][1:])
        assert float(row["service_gpu_s"]) == pytest.approx((1 + number % 4) * (100 + 40 * number))


def check_journal(path, printed) -> None:
    """One line per event or action, in order of time; Start names as many GPUs as the job has."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(lines) == printed["events"]
    assert [line["time_s"] for line in lines] == sorted(line["time_s"] for line in lines)
    for line in lines:
        start = {"on", "nodes", "fewest_nodes", "why"}
        more = {"Start": start, "Promise": {"places"}, "Rated": {"rate"}, "Explained": {"why", "few_nodes"}}.get(
            line["kind"], set()
        )
        assert set(line) == {"time_s", "kind", "job_id", "attempt", "level", "gpus"} | more
        assert "on" not in line or len(set(line["on"])) == line["gpus"]
        assert "places" not in line or sum(line["places"].values()) == line["gpus"]
    kinds = [line["kind"] for line in lines]
    assert kinds.count("Submitted") == kinds.count("Ended") == 30
    assert kinds.count("Stop") == kinds.count("Stopped") == printed["preemptions"]


def test_the_same_seed_writes_the_same_files_byte_for_byte(run, good, tmp_path):
    words = ("--cluster", "2x4", "--policy", "tiresias-l?threshold=500", "--placement", "random", "--json")
    for name, seed in (("a", 7), ("b", 7), ("c", 8)):
        assert run("simulate", good, *words, "--seed", seed, "--out", tmp_path / name)[0] == 0
    for file in ("journal.jsonl", "jobs.csv"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()
    assert (tmp_path / "a" / "journal.jsonl").read_bytes() != (tmp_path / "c" / "journal.jsonl").read_bytes()


def test_unsorted_submit_times_are_accepted(run, good, tmp_path):
    head, *rows = GOOD.splitlines(keepends=True)
    turned = tmp_path / "turned.csv"
    turned.write_text(head + "".join(reversed(rows)))
    found = [json.loads(run("simulate", path, "--cluster", "2x4", "--json")[1]) for path in (good, turned)]
    for summary in found:
        for key in ("trace", "wall_s", "settings", "trace_sha256", "command"):
            del summary[key]
    assert found[0] == found[1]


def test_jobs_larger_than_the_cluster_are_refused_by_name_or_counted(run, good):
    code, out, err = run("simulate", good, "--cluster", "3x1", "--json")
    assert (code, out) == (1, "")
    for words in ("7 of 30 jobs", "3x1", "3 GPUs", "j3 (4 GPUs)", "j27 (4 GPUs)", "--skip-impossible"):
        assert words in err
    assert err.count("\n") == 1
    code, out, _ = run("simulate", good, "--cluster", "3x1", "--skip-impossible", "--json")
    assert (code, json.loads(out)["jobs"], json.loads(out)["left_out"]) == (0, 23, 7)
    code, out, err = run("simulate", good, "--cluster", "3x1", "--skip-impossible")
    assert code == 0
    assert "7" in "".join(line for line in (out + err).splitlines() if "larger" in line or "left out" in line)


# ---- compare and policies


def test_compare_lists_summaries_in_the_order_asked_for(run, good):
    code, out, err = run(
        "compare", good, "--cluster", "2x4", "--policies", "fifo, srtf,tiresias-l?threshold=900", "--json"
    )
    found = json.loads(out)
    assert (code, err) == (0, "")
    assert [summary["policy"] for summary in found] == ["fifo", "srtf", "tiresias-l?threshold=900"]
    assert all(list(summary)[: len(SUMMARY)] == SUMMARY for summary in found)
    alone = json.loads(run("simulate", good, "--cluster", "2x4", "--policy", "srtf", "--json")[1])
    assert {**found[1], "wall_s": 0} == {**alone, "wall_s": 0}


def test_compare_over_seeds_gives_intervals(run):
    words = (
        "synthetic:tiresias-480?jobs=60",
        "--cluster",
        "8x4",
        "--policies",
        "tiresias-l,fifo",
        "--seeds",
        3,
        "--json",
    )
    code, out, _ = run("compare", *words)
    first, second = json.loads(out)
    assert code == 0
    assert (first["over_seeds"]["seeds"], len(second["over_seeds"]["jct_mean_s"])) == (3, 3)
    ratio = second["over_seeds"]["ratio"]
    assert ratio["low"] <= ratio["mean"] <= ratio["high"]


def test_compare_prints_a_table_and_writes_a_report(run, good, tmp_path):
    report = tmp_path / "deep" / "report.html"
    code, out, _ = run("compare", good, "--cluster", "2x4", "--policies", "fifo,srtf", "--report", report)
    assert code == 0
    assert "fifo" in out
    assert "srtf" in out
    assert "fifo" in report.read_text()


def test_policies_lists_everything_there_is(run):
    code, out, _ = run("policies", "--json")
    found = json.loads(out)
    assert code == 0
    assert [row["name"] for row in found["policies"]] == list(POLICIES)
    assert [row["name"] for row in found["placements"]] == list(PLACEMENTS)
    assert {row["name"] for row in found["policies"] if row["oracle"]} == {"sjf", "srtf", "srsf"}
    assert {name for kind in ("policies", "placements") for row in found[kind] for name in row["options"]} == set(
        found["options"]
    )
    code, out, _ = run("policies")
    assert code == 0
    assert all(name in out for name in (*POLICIES, *PLACEMENTS))


# ---- mistakes

FILES = {
    "NOCOL": "job_id,submit_s,gpus\n1,2,3\n",
    "TEXT": "job_id,submit_s,gpus,duration_s\n0,0,1,5\n1,2,3,long\n",
    "NEGATIVE": "job_id,submit_s,gpus,duration_s\n1,2,3,-4\n",
    "NAN": "job_id,submit_s,gpus,duration_s\n1,nan,3,4\n",
    "PART": "job_id,submit_s,gpus,duration_s\n1,0,1.5,4\n",
    "TWICE": "job_id,submit_s,gpus,duration_s\n1,2,3,4\n1,2,3,4\n",
    "EMPTY": "",
    "NOROWS": "job_id,submit_s,gpus,duration_s\n",
    "SAMPLES": "12\n-3\n",
}
ON = ("--cluster", "2x4")
# What was typed, and words that the one line must have.
BAD: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "policy": (("GOOD", *ON, "--policy", "tiresis-l"), ("unknown policy", "tiresias-l")),
    "option of a policy": (("GOOD", *ON, "--policy", "tiresias-l?treshold=9"), ("treshold", "'threshold'")),
    "option that a policy lacks": (("GOOD", *ON, "--policy", "fifo?quantum=9"), ("quantum", "fifo")),
    "value of an option": (("GOOD", *ON, "--policy", "tiresias-l?threshold=-1"), ("threshold=-1", "above 0")),
    "text for a number": (("GOOD", *ON, "--policy", "tiresias-l?promote=often"), ("promote=often",)),
    "falling thresholds": (("GOOD", *ON, "--policy", "tiresias-l?thresholds=9:3"), ("thresholds=9:3", "rise")),
    "index of gittins": (("GOOD", *ON, "--policy", "gittins?index=ploted"), ("ploted", "'plotted'")),
    "missing distribution": (("GOOD", *ON, "--policy", "gittins?distribution=no.txt"), ("no.txt", "No such file")),
    "bad distribution": (("GOOD", *ON, "--policy", "gittins?distribution=SAMPLES"), ("line 2", "'-3'")),
    "module of a policy": (("GOOD", *ON, "--policy", "no_such_module:Mine"), ("no_such_module", "PYTHONPATH")),
    "placement": (("GOOD", *ON, "--placement", "consolidate"), ("unknown placement", "'consolidated'")),
    "option of a placement": (("GOOD", *ON, "--placement", "consolidated?strikt=no"), ("strikt", "'strict'")),
    "value of strict": (("GOOD", *ON, "--placement", "consolidated?strict=maybe"), ("strict=maybe", "yes or no")),
    "network": (("GOOD", *ON, "--network", "idael"), ("unknown network", "'ideal'")),
    "collective": (("GOOD", *ON, "--collective", "nune"), ("unknown collective", "'none'")),
    "preemption cost": (("GOOD", *ON, "--preemption-cost", "dear"), ("'dear'", "none, model or a time")),
    "slowdown": (("GOOD", *ON, "--slowdown", "modle"), ("unknown slowdown", "'model'")),
    "minimum run time": (("GOOD", *ON, "--min-runtime", "soon"), ("--min-runtime", "'soon'", "5m or 1h")),
    "start of the window": (("GOOD", *ON, "--from", "soon"), ("--from", "'soon'", "5m or 1h")),
    "end of the window": (("GOOD", *ON, "--to", "soon"), ("--to", "'soon'", "5m or 1h")),
    "policy without a module": (("GOOD", *ON, "--policy", ":x"), ("':x'", "MODULE:NAME")),
    "missing file": (("nowhere.csv", *ON), ("nowhere.csv",)),
    "synthetic": (("synthetic:tiresas-480", *ON), ("tiresas-480", "'tiresias-480'")),
    "missing column": (("NOCOL", *ON), ("NOCOL", "duration_s")),
    "text in a number": (("TEXT", *ON), ("TEXT", "line 3", "duration_s", "long")),
    "negative": (("NEGATIVE", *ON), ("NEGATIVE", "line 2", "duration_s", "-4")),
    "not a time": (("NAN", *ON), ("NAN", "no submit time")),
    "part of a GPU": (("PART", *ON), ("PART", "line 2", "gpus", "1.5")),
    "duplicate": (("TWICE", *ON), ("TWICE", "line 3", "1")),
    "empty file": (("EMPTY", *ON), ("EMPTY",)),
    "no jobs": (("NOROWS", *ON), ("NOROWS",)),
    "zero nodes": (("GOOD", "--cluster", "0x4"), ("0x4",)),
    "zero GPUs": (("GOOD", "--cluster", "4x0"), ("4x0",)),
    "cluster": (("GOOD", "--cluster", "phily"), ("phily", "'philly'")),
    "every job too large": (("GOOD", "--cluster", "1x1", "--sample", "1", "--seed", "1"), ("1x1",)),
}


@pytest.mark.parametrize("seed", ["-1", str(2**63), "9" * 30])
@pytest.mark.parametrize("command", ["simulate", "compare", "trace"])
def test_seeds_out_of_range_are_refused(run, good, command, seed):
    more = {"simulate": ("simulate", good, *ON), "compare": ("compare", good, *ON, "--policies", "fifo")}
    words = more.get(command, ("trace", "convert", good, "--out", "x.csv"))
    code, _, err = run(*words, "--seed", seed)
    assert code == 1
    assert "--seed" in err


def test_jobs_of_unknown_models_are_counted_on_stderr(run, tmp_path):
    models = ("VGG 16", " resnet-50 ", "mystery", "")
    rows = "".join(f"j{i},{i},1,60,u,{model}\n" for i, model in enumerate(models))
    (tmp_path / "jobs.csv").write_text(HEAD + rows)
    words = (tmp_path / "jobs.csv", *ON, "--policy", "fifo", "--json")
    code, _, err = run("simulate", *words, "--slowdown", "model", "--preemption-cost", "model")
    assert code == 0
    assert err == ("note: 2 of 4 jobs have no known model: a preemption costs 62 s and spreading does not slow them\n")
    assert run("simulate", *words)[2] == ""


def test_policies_show_the_defaults(run):
    found = json.loads(run("policies", "--json")[1])
    optimus = next(row for row in found["policies"] if row["name"] == "optimus")
    assert (optimus["options"], optimus["defaults"]) == (["quantum"], {"quantum": "600 s"})
    shown = run("policies")[1]
    for words in ("threshold: 3200", "packlimit: 0.35", "strict: yes (or no)", "hundredth"):
        assert words in " ".join(shown.split())


@pytest.mark.parametrize("case", list(BAD))
def test_bad_input_is_one_line_and_leaves_nothing_behind(run, good, tmp_path, monkeypatch, case: str) -> None:
    for name, content in FILES.items():
        (good.parent / name).write_text(content)
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    typed, expected = BAD[case]
    words = [str(good) if word == "GOOD" else str(good.parent / word) if word in FILES else word for word in typed]
    words = [word.replace("=SAMPLES", f"={good.parent / 'SAMPLES'}") for word in words]
    code, out, err = run("simulate", *words, "--out", tmp_path / "out", "--json")
    assert (code, out) == (1, "")
    assert err.startswith("headway: ")
    assert err.count("\n") == 1
    assert "Traceback" not in err
    for word in expected:
        assert word in err
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--policies", "fifo,srft"), "'srtf'"),
        (("--policies", ","), "--policies is empty"),
        (("--policies", "fifo,srtf, fifo"), "--policies names fifo twice"),
        (("--policies", "fifo", "--seeds", "2", "--seed", "1"), "leave out --seed 1"),
        (("--policies", "fifo", "--report", "FOLDER"), "is a folder"),
    ],
)
def test_compare_says_what_is_wrong_before_it_runs(run, good, tmp_path, words, expected):
    given = [str(tmp_path) if word == "FOLDER" else word for word in words]
    code, out, err = run("compare", good, "--cluster", "2x4", *given)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert expected in err


def test_a_file_in_the_way_of_out_stays_whole(run, good, tmp_path):
    blocked = tmp_path / "out"
    blocked.write_text("precious")
    code, out, err = run("simulate", good, "--cluster", "2x4", "--out", blocked, "--json")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert "is a file" in err
    assert blocked.read_text() == "precious"


# ---- in a process of its own

COMMAND = [sys.executable, "-c", "from headway.cli.main import main; main()"]


def test_help_lists_the_commands():
    done = subprocess.run([*COMMAND, "--help"], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    for name in (
        "simulate",
        "compare",
        "sweep",
        "trace",
        "policies",
        "collective",
        "fabric",
        "serve",
        "submit",
        "queue",
    ):
        assert name in done.stdout


def test_help_does_not_load_the_compiler():
    """What makes --help slow is importing NumPy, numba and SciPy: none of them may be there."""
    script = (
        "import sys\nfrom headway.cli.main import main\nsys.argv = ['headway', '--help']\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print(sorted({'numpy', 'numba', 'scipy', 'plotly'} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.stderr.strip() == "[]"


def test_simulate_and_its_mistakes_from_a_shell(good, tmp_path):
    words = ["simulate", str(good), "--cluster", "2x4", "--json"]
    done = subprocess.run([*COMMAND, *words], capture_output=True, text=True, timeout=COMPILES_S, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["finished"] == 30
    wrong = subprocess.run(
        [*COMMAND, *words, "--policy", "fofo"], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert (wrong.returncode, wrong.stdout) == (1, "")
    assert wrong.stderr == "headway: unknown policy 'fofo': did you mean 'fifo'?\n"
    usage = subprocess.run(
        [*COMMAND, "simulate", str(good)], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert usage.returncode == 2


def test_notes_name_settings_that_nothing_answers_to(run, good):
    _, _, err = run("simulate", str(good), "--cluster", "2x4", "--policy", "backfill", "--min-runtime", "5m,nowhere=1h")
    assert "note: --min-runtime: no job of the trace is in queue 'nowhere'" in err
    assert 'give the trace a column limit_s, or a limit for all with "backfill?limit=12h"' in err
    _, _, err = run("simulate", str(good), "--cluster", "2x4", "--policy", "backfill?limit=12h")
    assert "limit" not in err


def test_a_time_limit_below_zero_is_refused_by_its_line(run, tmp_path):
    path = tmp_path / "jobs.csv"
    path.write_text("submit_s,gpus,duration_s,limit_s\n0,1,10,\n0,1,10,-1\n0,1,10,-5\n")
    code, _, err = run("simulate", str(path), "--cluster", "1x2")
    assert code == 1
    assert "line 4, column 'limit_s': -5 is no time" in err
