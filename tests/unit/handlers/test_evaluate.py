"""Values of expressions, and the records on which they have none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dsbuild.handlers.evaluate import EvaluationError, compiled
from dsbuild.handlers.expression import names, parse
from dsbuild.records import MISSING

ROW: dict[str, Any] = {
    "text": "Straße 1",
    "n": 3,
    "x": 2.5,
    "yes": True,
    "null": None,
    "tags": ["a", 1, None, [1]],
    "meta": {"lang": "de", "deep": {"k": [10, 20]}},
    "ids": np.array([5, 6, 7], np.uint16),
    "count": np.int64(4),
    "big": 10**200,
    "user-id": 9,
}


def value(text: str) -> Any:
    tree = parse(text)
    return compiled(tree)({n: ROW.get(n, MISSING) for n in names(tree)})


@pytest.mark.parametrize(
    "text",
    [
        "len(text) == 8 and len(tags) == 4 and len(meta) == 2 and len(ids) == 3",
        "1 < n < 4 and not 1 < n < 3",
        "n == 3.0 and n != true and 1 != true and 0 != false and yes == true",
        "null == none and null is None and n != none",
        "lower(text) == 'straße 1' and upper(text) == 'STRASSE 1'",
        "text.startswith('Str') and endswith(text, '1') and strip(' a\\t') == 'a'",
        "strip('\\u00a0a') == '\\u00a0a'",
        "'aß' in text and contains(text, 'ße') and 'x' not in text",
        "'a' in tags and 1 in tags and none in tags and [1] in tags and true not in tags and [true] not in tags",
        "'lang' in meta and 1 not in meta and meta['lang'] == 'de'",
        "meta['deep']['k'][-1] == 20 and meta['deep'] == meta['deep'] and meta != meta['deep']",
        "6 in ids and 8 not in ids and ids[0] == 5 and count == 4 and max(ids) == 7",
        "n + x == 5.5 and n - 1 == 2 and n * n == 9 and n / 2 == 1.5 and n // 2 == 1 and -n % 2 == 1",
        "'a' + 'b' == 'ab' and 'a' < 'b' and text > 'S'",
        "min(n, x, 1) == 1 and max([n, x]) == 3 and abs(-n) == 3 and -x < 0",
        "has(n) and has(null) and missing(gone) and not has(gone['x']) and not has(meta['no']) and not has(n['x'])",
        "has(meta['deep']['k'][1]) and missing(meta['deep']['k'][2])",
        "missing(gone) or gone > 3",
        "not has(gone) or gone > 3",
        "field('user-id') == 9",
        "len(tags) >= 4 and 'b' not in ['a'] and [] == []",
        "n < 2.5 or x < big",
    ],
)
def test_true(text: str) -> None:
    assert value(text) is True


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("gone > 3", "no field 'gone'; has(gone)"),
        ("meta['no'] == 1", "no ['no']"),
        ("tags[9] == 1", "[9] of a list of 4"),
        ("text[0] == 'S'", "[0] of text"),
        ("text < 3", "'<' compares two numbers or two texts, not text and a number"),
        ("yes < 3", "not true or false and a number"),
        ("null >= 1", "not none and a number"),
        ("n and yes", "'and' takes true or false, not a number"),
        ("null or yes", "'or' takes true or false, not none"),
        ("not text", "'not' takes true or false, not text"),
        ("text + n == 1", "'+' takes numbers, not text and a number"),
        ("text * 3 == ''", "'*' takes numbers"),
        ("yes + 1 == 2", "'+' takes numbers"),
        ("n / (n - 3) == 1", "3 / 0"),
        ("n % 0 == 1", "3 % 0"),
        ("big * big == 1", "more than 1024 bits"),
        ("big * 1.5e308 == 1", "too large"),
        ("len(n) == 1", "len takes text, a list or a table, not a number"),
        ("lower(n) == ''", "lower takes text, not a number"),
        ("startswith(text, n)", "startswith takes text"),
        ("n in text", "not for a number"),
        ("n in n", "not into a number"),
        ("min([]) == 1", "at least one number"),
        ("max(tags) == 1", "takes numbers"),
        ("abs(text) == 1", "abs takes a number"),
        ("-text == 1", "- takes a number"),
        ("ids == [5, 6, 7]", "arrays can't be compared"),
    ],
)
def test_no_value(text: str, said: str) -> None:
    with pytest.raises(EvaluationError) as caught:
        value(text)
    assert said in str(caught.value)
