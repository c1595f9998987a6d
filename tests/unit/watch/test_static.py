"""The dashboard's files: nothing that turns data into code, nothing from elsewhere, every import there, files of a readable size."""

import re

from headway.web import FOLDER, POLICY, TYPES, files

SCRIPTS = {path: data.decode() for path, data in files().items() if path.endswith(".js")}
# Ways for a string to become markup, script or style.
DANGEROUS = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|createContextualFragment|srcdoc|javascript:"
)
MOST_LINES = 350


def test_no_script_turns_data_into_code() -> None:
    assert {path: found[0] for path, text in SCRIPTS.items() if (found := DANGEROUS.search(text))} == {}


def test_nothing_is_loaded_from_elsewhere() -> None:
    for path, data in files().items():
        addresses = set(re.findall(r"https?://[^\s\"'`]+", data.decode())) - {"http://www.w3.org/2000/svg"}
        assert not addresses, f"{path}: {addresses}"


def test_every_import_is_there() -> None:
    for path, text in SCRIPTS.items():
        folder = (FOLDER / path).parent
        for name in re.findall(r"""(?:from|import\()\s*["'](\.[^"']+)["']""", text):
            assert (folder / name).resolve().is_file(), f"{path} imports {name}"


def test_scripts_are_short_enough_to_read() -> None:
    assert {path: text.count("\n") for path, text in SCRIPTS.items() if text.count("\n") > MOST_LINES} == {}


def test_the_policy_names_our_own_files_only() -> None:
    assert POLICY.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
    assert "unsafe" not in POLICY


def test_every_file_has_a_type() -> None:
    assert all(path.rpartition(".")[1] and f".{path.rpartition('.')[2]}" in TYPES for path in files())
