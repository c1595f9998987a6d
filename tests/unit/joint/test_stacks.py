"""Stacks: named lines of policy, placement, network and collective, ours and people's own."""

import json

import pytest
from typer.testing import CliRunner

import headway
from headway.cli.main import app
from headway.errors import BadInput
from headway.placement.registry import find_placement
from headway.sim.stacks import STACKS, WORDS, parse_stacks

TRACE = "synthetic:tiresias-480?jobs=40"
FIVE = "yarn,tiresias,vclos,themis,headway"


def ran(*words):
    return CliRunner().invoke(app, list(words), env={"COLUMNS": "200"})


def test_the_five_stacks_are_printed_in_full_and_read_back():
    listed = json.loads(ran("stacks", "--json").stdout)
    assert [one["name"] for one in listed] == FIVE.split(",")
    shown = ran("stacks").stdout
    for one in listed:
        assert {*WORDS[:4]} <= {*one}
        assert one["written"] in shown
        mine = parse_stacks(one["written"].replace(f"{one['name']}=", "mine=", 1))[0]
        assert mine.settings == STACKS[one["name"]].settings


def test_stacks_of_ones_own_begin_as_nothing_or_as_another():
    mine, more = parse_stacks(
        "mine=policy:tiresias-l?threshold=1600,placement:consolidated?strict=no,network:ecmp?qps=4,"
        "more=mine,progress_reports:0.5,collective:best"
    )
    assert mine.settings["policy"] == "tiresias-l?threshold=1600"
    assert mine.settings["placement"] == "consolidated?strict=no"
    assert "collective" not in mine.settings
    assert more.settings == {**mine.settings, "progress_reports": 0.5, "collective": "best"}
    assert str(more).endswith("collective:best,progress_reports:0.5")
    outside = parse_stacks("mine=policy:my_module:MyPolicy")[0]
    assert outside.settings == {"policy": "my_module:MyPolicy"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("yarn,headwy", "unknown stack 'headwy': did you mean 'headway'"),
        ("mine=polcy:fifo", "unknown part of a stack 'polcy': did you mean 'policy'"),
        ("yarn,placement:spread", "belongs to no stack of your own: write NAME=placement:spread"),
        ("yarn,yarn", "names yarn twice"),
        ("yarn=policy:srtf", "yarn is one of ours: give yours another name"),
        ("mine=policy:fifo,policy:srtf", "gives policy a second time"),
        ("mine=headway,progress_reports:some", "needs a number"),
        ("mine=headway,progress_reports:2", "is not a number from 0 to 1"),
        ("mine=network:token-ring", "unknown network 'token-ring'"),
        ("mine=seed:3", "unknown part of a stack 'seed'"),
        (" , ", "--stacks is empty"),
    ],
)
def test_mistakes_are_named(text, said):
    with pytest.raises(BadInput) as found:
        parse_stacks(text)
    assert said in str(found.value)


def test_five_stacks_side_by_side_on_the_testbed_with_its_fabric():
    results = headway.compare(TRACE, "tiresias-testbed", stacks=FIVE)
    assert [result.summary["stack"] for result in results] == FIVE.split(",")
    for result in results:
        line = STACKS[result.summary["stack"]]
        assert {word: result.summary[word] for word in WORDS[:4]} == line.full
        assert result.summary["fabric"] == "tiresias-testbed"
        assert result.summary["left_out"] == 0
        assert result.summary["finished"] == 40
    assert results.command == f"headway compare '{TRACE}' --cluster tiresias-testbed --stacks {FIVE}"


def test_the_command_of_a_comparison_runs_it_again():
    written = "yarn,mine=headway,placement:leaf-aware"
    one = headway.compare(TRACE, "tiresias-testbed", stacks=written)
    words = one.command.split(" --stacks ")[1].strip("'")
    again = headway.compare(TRACE, "tiresias-testbed", stacks=words)
    assert [a.summary["jct_s"] for a in one] == [b.summary["jct_s"] for b in again]


def test_the_table_names_stacks_and_says_what_is_wrong():
    jobs = "synthetic:tiresias-480?jobs=120&seed=7"
    shown = ran("compare", jobs, "--cluster", "tiresias-testbed", "--stacks", "yarn,headway")
    assert shown.exit_code == 0, shown.output
    assert " stack" in shown.stdout
    assert "vs yarn" in shown.stdout
    assert "headway: of " in shown.stdout
    assert " had links of their own, " in shown.stdout
    neither = ran("compare", TRACE, "--cluster", "15x4")
    assert neither.exit_code == 1
    assert "--policies fifo,tiresias-l, or --stacks yarn,headway" in str(neither.exception)
    own = ran("compare", TRACE, "--cluster", "tiresias-testbed", "--stacks", "yarn", "--placement", "spread")
    assert "with stacks, each says its own placement" in str(own.exception)


def test_a_report_of_stacks_names_what_they_are(tmp_path):
    path = tmp_path / "report.html"
    headway.compare(TRACE, "tiresias-testbed", stacks="yarn,all=headway,progress_reports:1", keep_journal=True).report(
        path
    )
    page = path.read_text("utf-8")
    assert "<b>all</b>: headway, joint, source, best, progress reports 1.0." in page
    assert "<th>stack</th>" in page
    assert "all=policy:headway,placement:joint,network:source,collective:best,progress_reports:1.0" in page


def test_wrong_numbers_of_joint_and_policies_beside_stacks_are_told():
    with pytest.raises(BadInput, match="patience=-1 must be a number of at least 0"):
        find_placement("joint?patience=-1")
    assert find_placement("joint?patience=0.0").patience == 0
    both = ["--cluster", "tiresias-testbed", "--stacks", "yarn", "--policies", "fifo"]
    refused = ran("compare", TRACE, *both)
    assert refused.exit_code
    assert "or --stacks yarn,headway, not both" in str(refused.exception)
