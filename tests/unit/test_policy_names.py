"""Policies and placements by name, and policies from outside: every mistake is one line that says whose, what and where."""

import math
from dataclasses import replace

import pytest

from headway.errors import BadInput
from headway.placement import TABLE as PLACEMENTS
from headway.placement.registry import find_placement
from headway.policies import MODULES as POLICIES
from headway.policies.outside import from_object
from headway.policies.registry import find_policy, listed, meanings


def refused(make, *given) -> str:
    with pytest.raises(BadInput) as raised:
        make(*given)
    assert "\n" not in str(raised.value)
    return str(raised.value)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("tiresias-l?queues=5000", "queues=5000 must be a whole number from 1 to 64"),
        ("tiresias-l?threshold=1e308&queues=4", "at most 1e+20"),
        ("tiresias-l?threshold=inf", "threshold=inf must be a number above 0"),
        ("tiresias-l?thresholds=5:", "thresholds=5:: '' is not"),
        ("tiresias-l?thresholds=" + ":".join(map(str, range(1, 70))), "70 queues are too many"),
        ("tiresias-l?queues=1&threshold=5", "leave out threshold=5"),
        ("tiresias-l?", "no option follows"),
        ("las?quantum=0.0001", "quantum=0.0001 is too short: at least 0.001 s"),
        ("fifo?quantum=3", "policy fifo takes no options"),
        ("las?quantums=3", "did you mean 'quantum'?"),
        ("headway?rent=-1", "rent=-1 must be a number of at least 0"),
        ("headway?defragment_after=soon", "defragment_after is inf or a time; 'soon' is not a time"),
        ("headway?defragment_after=free", "defragment_after is inf or a time; 'free' is not a time"),
        ("backfill?limit=0", "limit=0 must be a time above 0, such as 8h"),
        ("gittins?index=drawn", "index of gittins 'drawn'"),
        ("gittins?distribution=/nowhere", "cannot read the distribution /nowhere"),
        ("tiresias-l?threshold=3&thresholds=4:5", "tiresias-l: give threshold or thresholds, not both"),
        ("tiresias-l?thresholds=5:4", "thresholds=5:4 must rise"),
        ("tiresias-l?queues=2&thresholds=4:5", "queues=2 needs 2 - 1 thresholds, not 2"),
        ("FIFO", "did you mean 'fifo'?"),
        (":x", "MODULE:NAME"),
        (".kk:A", "MODULE:NAME"),
        ("a..b:C", "MODULE:NAME"),
        ("math:", "MODULE:NAME"),
        ("math:Nothing", "math has no 'Nothing'"),
        ("math:pi", "is not a policy"),
    ],
)
def test_bad_policies(spec, words):
    assert words in refused(find_policy, spec)


def test_most_queues_are_accepted():
    assert len(find_policy("tiresias-l?queues=64").thresholds) == 63
    assert find_policy("tiresias-l?queues=1").thresholds == ()


@pytest.mark.parametrize(
    ("spec", "words"),
    [("profile?packlimit=5", "at most 1"), ("spread?strict=no", "takes no options"), (3, "3 is not a placement")],
)
def test_bad_placements(spec, words):
    assert words in refused(find_placement, spec)


MODULES = {
    "broken_syntax": ("class A:\n    def key(:\n", "SyntaxError: ", "line 2"),
    "broken_import": ("x = 1\nx / 0\n", "importing broken_import failed: ZeroDivisionError: ", "line 2"),
    "broken_attribute": (
        "import math\nmath.nothing\n",
        "importing broken_attribute failed: AttributeError: ",
        "line 2",
    ),
    "broken_class": ("class A:\n    def __init__(self):\n        {}[3]\n", "A() failed: KeyError: 3", "line 3"),
    "broken_options": (
        "class A:\n    def __init__(self, patience):\n        pass\n",
        "A() failed: TypeError: ",
        "'patience'",
    ),
}


@pytest.mark.parametrize("module", list(MODULES))
def test_modules_that_fail_are_named_with_file_and_line(tmp_path, monkeypatch, module):
    text, what, where = MODULES[module]
    (tmp_path / f"{module}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    said = refused(find_policy, f"{module}:A")
    assert what in said
    assert where in said
    assert f"{module}.py" in said or module == "broken_options"


def mine(**given):
    """An object that is a policy, but for what is given."""

    class Mine:
        def key(self, job, now, options):
            return job.gpus, job.submit

    found = Mine()
    for name, value in given.items():
        setattr(found, name, value)
    return found


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"key": lambda job, now, options: 3}, "key(job, now, options) must return two numbers, not 3"),
        ({"key": lambda job, now, options: (1, "a")}, "must return two numbers, not (1, 'a')"),
        ({"key": lambda job, now, options: (math.nan, 0)}, "must return two numbers, not NaN"),
        ({"key": lambda job, now, options: (job.left, 0)}, "unless the policy says oracle"),
        ({"key": lambda job, now: (0, 0)}, "key(job, now, options) failed: TypeError"),
        ({"key": lambda job, now, options: (job.nothing, 0)}, "test_policy_names.py, line"),
        ({"change": lambda job, now, options: None}, "change(job, now, options) must return a time"),
        ({"change": 3}, "change is 3, not a function"),
        ({"thresholds": "abc"}, "thresholds is 'abc'"),
        ({"thresholds": (3, 2)}, "rising"),
        ({"quantum": -3}, "quantum is -3, not a number of at least 0.001"),
        ({"quantum": "60"}, "quantum is '60'"),
        ({"dynamic_keys": 1}, "dynamic_keys is 1, not True or False"),
        ({"samples": [1, -2]}, "samples"),
        ({"rent": math.inf}, "rent is inf, not a number of at least 0"),
        ({"parameters": 3}, "parameters is 3, not a list of numbers"),
        ({"parameters": ["a"]}, "not a list of numbers"),
    ],
)
def test_mistakes_in_own_policies_name_the_class_and_the_contract(given, words):
    said = refused(from_object, mine(**given))
    assert words in said
    assert "policy Mine" in said


def test_own_policies_that_are_right():
    assert from_object(mine(thresholds=[3, 5], quantum=math.inf, dynamic_keys=True)).thresholds == (3.0, 5.0)
    assert from_object(mine(oracle=True, key=lambda job, now, options: (job.left, 0))).oracle
    assert "Mine is a class" in refused(from_object, type(mine()))


def test_the_list_shows_the_defaults():
    shown = {name: policy.defaults for name, policy in listed().items()}
    assert shown["headway"] == {"rent": "0.3", "defragment_after": "20m"}
    assert shown["fifo"] == {}
    assert shown["backfill"] == {"limit": "as jobs ask", "requested": "as the trace says"}
    assert shown["srtf"] == {"quantum": "none", "defragment_after": "inf"}
    assert shown["las"] == {"quantum": "60 s", "defragment_after": "inf"}
    queues = {"queues": "2", "threshold": "3200 GPU-seconds", "thresholds": "by threshold, doubling", "promote": "inf"}
    assert shown["tiresias-l"] == queues | {"quantum": "none", "defragment_after": "inf"}
    assert shown["gittins"]["index"] == "printed"
    assert shown["tiresias-g"]["distribution"] == "the jobs that ended"
    assert find_policy("tiresias-l").thresholds == (3200.0,)


def test_an_option_means_the_same_in_every_policy():
    for policy in listed().values():
        assert {name: each.option.help for name, each in policy.options.items()}.items() <= meanings().items()


@pytest.mark.parametrize("name", list(POLICIES))
def test_defaults_that_can_be_written_change_nothing(name):
    for option, each in listed()[name].options.items():
        if option in ("rent", "defragment_after", "promote", "index", "queues"):
            assert replace(find_policy(f"{name}?{option}={each.shown}"), name=name) == find_policy(name)


@pytest.mark.parametrize(
    ("spec", "field", "value"),
    [
        ("headway?rent=0", "rent", 0.0),
        ("srsf?defragment_after=inf", "defragment_after", math.inf),
        ("las?defragment_after=90m", "defragment_after", 5400.0),
        ("gandiva?quantum=30", "min_runtime", 30.0),
        ("backfill?limit=8h", "limit", 28800.0),
        ("backfill?requested=3", "oracle", True),
        ("tiresias-l?promote=inf", "promote", math.inf),
        ("tiresias-l?queues=3", "thresholds", (3200.0, 6400.0)),
        ("tiresias-g?thresholds=5:7", "thresholds", (5.0, 7.0)),
        ("tiresias-l?threshold=auto", "fits", True),
        ("gittins?index=plotted", "plotted", True),
    ],
)
def test_options_arrive(spec, field, value):
    assert getattr(find_policy(spec), field) == value


def test_the_listed_pack_limit_is_the_real_one():
    assert PLACEMENTS["profile"][2]["packlimit"] == f"{find_placement('profile').pack_limit:g}"


def test_a_policy_that_writes_into_the_job_is_refused():
    class Writes:
        def key(self, job, now, options):
            job.gpus = 1
            return 0.0, 0.0

    assert "read-only" in refused(find_policy, Writes())
