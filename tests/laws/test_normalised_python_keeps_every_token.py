"""Law: comments, blank lines, docstrings and layout never move normalised Python; any changed token does."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from dsbuild.recipe.normalise import SourceError, decode, normalise

BASE = '''import json
from . import helper

LIMIT = 0x1F
NAMES = ["a # no comment", 'it', rb"\\x00", """long
  # inside

text"""]


@helper.wrap(1)
class Cleaner(dict):
    """What it is."""

    size: int = 3

    def clean(self, record, *, least=2, **rest):
        """What it does."""
        text = record["text"].strip()
        if len(text) < least or not text:
            return None
        for i, (a, b) in enumerate(zip(text, text[1:])):
            text += f"{a!r:>{i}} {b}" if a != b else ""
        return {**record, "text": text, "n": -LIMIT ** 2 // 3}


def clean(record):
    "Short."
    try:
        return Cleaner().clean(record, least=1)
    except (ValueError, KeyError) as error:
        raise RuntimeError("no") from error
'''
LINES = BASE.split("\n")
INSIDE_TEXT = {5, 6, 7}
"""Numbers (from 1) of the lines after which one is inside a text of several lines."""


def text(source: str) -> str:
    return normalise(decode(source.encode())).text


@st.composite
def noise(draw: st.DrawFn) -> str:
    """The base with comments, blank lines, trailing blanks and other docstrings, which mean nothing."""
    made = []
    for number, line in enumerate(LINES, 1):
        if number - 1 not in INSIDE_TEXT:
            made += draw(st.lists(st.sampled_from(["", "    ", "# why", "        # deep", "\f"]), max_size=2))
        if number not in INSIDE_TEXT and number - 1 not in INSIDE_TEXT and line:
            line += draw(st.sampled_from(["", "  ", "  # said", "\t"]))
        made.append(line)
    joined = draw(st.sampled_from(["\n", "\r\n", "\r"])).join(made)
    word = draw(st.sampled_from(["What", "# x", "é", "it's"]))
    return joined.replace('"""What', f'"""{word}') + draw(st.sampled_from(["", "\n", "# end"]))


@st.composite
def mutation(draw: st.DrawFn) -> str:
    """The base with one token exchanged that the grammar sees and that is no docstring."""
    found = [t for t in tokenize.generate_tokens(io.StringIO(BASE).readline) if t.type in KINDS]
    found = [t for t in found if not t.string.startswith(('"""What', '"Short'))]
    token = draw(st.sampled_from(found))
    changed = _other(token.string, draw)
    rows = BASE.split("\n")
    row, column = token.start
    before = sum(len(r) + 1 for r in rows[: row - 1]) + column
    return BASE[:before] + changed + BASE[before + len(token.string) :]


KINDS = {tokenize.NAME, tokenize.NUMBER, tokenize.STRING, tokenize.OP}
SWAPS = {"<": ">", "!=": "==", "+=": "-=", "//": "%", "**": "*", "-": "+", "True": "False", "not": "", "or": "and"}


def _other(token: str, draw: st.DrawFn) -> str:
    if token in SWAPS:
        return SWAPS[token]
    if re.fullmatch(r"0x\w+|\d+", token):
        return token + draw(st.sampled_from("0123456789"))
    if token[-1:] in "\"'":
        return token[:-1] + draw(st.sampled_from(" #xé")) + token[-1] if token[-3:] != '"""' else token[:-3] + ' """'
    return token + draw(st.sampled_from(["x", "_", " y"])) if token.isidentifier() else token + token


def keeps(law: Callable[[str], str], source: str) -> bool:
    return law(source) == law(BASE)


def sees(law: Callable[[str], str], source: str) -> bool:
    try:
        return law(source) != law(BASE)
    except SourceError:  # most mutations are no Python any more, and are refused
        return True


@settings(max_examples=40, deadline=None)
@given(noise())
def test_what_means_nothing_moves_nothing(source: str) -> None:
    assert keeps(text, source)


@settings(max_examples=120, deadline=None)
@given(mutation())
def test_every_token_moves_it(source: str) -> None:
    assert sees(text, source)


def by_lines(source: str) -> str:
    """A mutant: comments cut off with a pattern, blind for '#' inside of texts, and blanks collapsed inside them."""
    return "\n".join(
        re.sub(r"\s+", " ", re.sub(r"#.*", "", line)).strip() for line in source.split("\n") if line.strip()
    )


def test_the_law_kills_the_mutant() -> None:
    inside = BASE.replace("a # no comment", "a # other comment")
    assert sees(text, inside)
    assert not sees(by_lines, inside)
    assert not keeps(by_lines, BASE.replace('"""What it is."""', '"""Other."""'))
