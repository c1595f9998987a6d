"""Reasons have one source: the engine, the API, the page and the docs take codes and texts from headway/reasons.py."""

from pathlib import Path

from headway.core import events
from headway.live.queries.explain.explain import CAUSES
from headway.live.rows import BLOCKER_REASONS, Blocker, row_meaning
from headway.reasons import BY_CODE, CODES, REASONS, receipt_text, short_text, table

ROOT = Path(__file__).parents[2]


def test_the_engine_counts_by_the_same_list() -> None:
    assert ("", *CODES) == events.REASONS
    assert len(BY_CODE) == len(REASONS) == 15
    # The positions are in journals: a new reason goes to the end.
    assert (events.WAIT_HELD, events.WAIT_GPUS, events.WAIT_NOTICE) == (1, 4, 15)


def test_the_table_of_the_docs_is_made_of_it() -> None:
    assert "\n".join(["", *table(), ""]) in (ROOT / "docs" / "live.md").read_text("utf-8")


def test_nothing_else_lists_texts_of_reasons() -> None:
    files = [path for path in (ROOT / "src" / "headway").rglob("*") if path.suffix in (".py", ".js", ".html")]
    texts = {path.name: path.read_text("utf-8") for path in files if path.name != "reasons.py"}
    long = [reason.long for reason in REASONS if reason.code not in ("dependency", "gpus")]  # plain words elsewhere too
    assert not [(name, text) for name, content in texts.items() for text in long if text in content]


def test_journal_rows_name_blockers_in_these_words() -> None:
    for blocker, code in BLOCKER_REASONS.items():
        if blocker != Blocker.HELD:  # a person's hold is an event: held, released
            assert row_meaning("Blocked", {"blockers": int(blocker), "before": 0}).message == BY_CODE[code].long


def test_texts() -> None:
    assert short_text("gpus") == "too few are free"
    assert receipt_text("gpus") == "too few are free"
    assert receipt_text("stopping").startswith("it was saving")
    assert short_text("held") == receipt_text("held") == "until it is released"
    assert not [reason.code for reason in REASONS if reason.short == reason.code]
    assert short_text("unheard") == receipt_text("unheard") == ""


def test_explain_answers_for_every_reason() -> None:
    assert tuple(CAUSES) == CODES
