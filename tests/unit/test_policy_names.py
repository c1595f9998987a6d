"""Policies and placements by name, and policies from outside: every mistake is one line that says whose, what and where."""

import math

import pytest

from headway.errors import BadInput
from headway.placement import TABLE as PLACEMENTS
from headway.placement.registry import find_placement
from headway.policies import TABLE as POLICIES
from headway.policies.outside import from_object
from headway.policies.registry import find_policy


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
        ({"moving": 1}, "moving is 1, not True or False"),
        ({"samples": [1, -2]}, "samples"),
    ],
)
def test_mistakes_in_own_policies_name_the_class_and_the_contract(given, words):
    said = refused(from_object, mine(**given))
    assert words in said
    assert "policy Mine" in said


def test_own_policies_that_are_right():
    assert from_object(mine(thresholds=[3, 5], quantum=math.inf, moving=True)).thresholds == (3.0, 5.0)
    assert from_object(mine(oracle=True, key=lambda job, now, options: (job.left, 0))).oracle
    assert "Mine is a class" in refused(from_object, type(mine()))


@pytest.mark.parametrize("name", list(POLICIES))
def test_the_listed_defaults_are_the_real_ones(name):
    policy, listed = find_policy(name), POLICIES[name][2]
    if "quantum" in listed:
        shown = "none" if math.isinf(policy.quantum) else f"{policy.quantum:g} s"
        assert listed["quantum"] == shown
    if "threshold" in listed:
        assert listed["threshold"] == f"{policy.thresholds[0]:g} GPU-seconds"
        assert listed["queues"] == str(len(policy.thresholds) + 1)
        assert listed["promote"] == f"{policy.promote:g}"


def test_the_listed_pack_limit_is_the_real_one():
    assert PLACEMENTS["profile"][2]["packlimit"] == f"{find_placement('profile').pack_limit:g}"


def test_a_policy_that_writes_into_the_job_is_refused():
    class Writes:
        def key(self, job, now, options):
            job.gpus = 1
            return 0.0, 0.0

    assert "read-only" in refused(find_policy, Writes())
