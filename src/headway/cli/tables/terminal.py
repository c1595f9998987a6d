"""Safe printing of untrusted text on a terminal: control characters are shown, not obeyed.

A job's log, name or message may hold sequences that clear the screen, retitle the window, hide what was printed or type into the shell.
"""

import re

# Colours and other attributes of text (SGR), which jobs print in good faith: left out rather than shown.
_COLOURS = re.compile(r"\x1b\[[0-9;:]*m")
# Control characters have pictures in Unicode, 0x2400 above them.
_PICTURES = {code: 0x2400 + code for code in range(0x20)} | {0x7F: 0x2421}
# C1 controls, line separators, and marks that turn the direction of text: what follows would not be what is read.
_OTHERS = [*range(0x80, 0xA0), 0x061C, 0x200E, 0x200F, 0x2028, 0x2029, *range(0x202A, 0x202F), *range(0x2066, 0x206A)]
_SHOWN = {**_PICTURES, **dict.fromkeys(_OTHERS, 0xFFFD)}
del _SHOWN[ord("\t")]


def plain(text: str) -> str:
    """One line of text, harmless. Of a line that overwrites itself (a progress bar), what a terminal would show in the end is kept."""
    text = _COLOURS.sub("", text)
    if "\r" in text:
        text = next((part for part in reversed(text.split("\r")) if part), "")
    return text.translate(_SHOWN)


def plain_lines(text: str) -> str:
    """The same for text of several lines."""
    return "\n".join(map(plain, text.split("\n")))
