"""The language of keep: what parses, what is refused and where, and its one canonical form."""

from __future__ import annotations

import pytest

from dsbuild.handlers.expression import names, parse, show


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("len(text)>=200", "len(text) >= 200"),
        ("  len( text ) >= 200\n", "len(text) >= 200"),
        ("len(text) >= 200  # long ones", "len(text) >= 200"),
        ("a\nand\nb", "a and b"),
        ("(((a)))", "a"),
        ("a and b and not c", "a and b and (not c)"),
        ("(a and b) and c", "(a and b) and c"),
        ("not a or b", "(not a) or b"),
        ("1<len(x)<=0x10", "1 < len(x) <= 16"),
        ("x in ('a', \"b\")", 'x in ["a", "b"]'),
        ("x not in []", "x not in []"),
        ("text.lower().startswith('ab')", 'startswith(lower(text), "ab")'),
        ("x is None or x is not none", "(x == none) or (x != none)"),
        ("missing(meta['lang'])", 'not has(meta["lang"])'),
        ('field("user-id") == field("class")', 'field("user-id") == field("class")'),
        ('field("plain") == true', "plain == true"),
        ("True != False", "true != false"),
        ("-x + -3 - -(-2.50)", "((-x) + (-3)) - 2.5"),
        ("a[0][-1]['k'] % 2 == 0", '(a[0][-1]["k"] % 2) == 0'),
        ("a / b // c * d", "((a / b) // c) * d"),
        ("'a' 'b' == \"\\u00e9\\n\\x07'\\\"\"", '"ab" == "é\\n\\u0007\'\\""'),
        ("1e3 < 1_000.0", "1000.0 < 1000.0"),
        ("contains(tags, '😀') or 'x' in tags", 'contains(tags, "😀") or ("x" in tags)'),
        ("min(a, b) < max(scores)", "min(a, b) < max(scores)"),
    ],
)
def test_canonical(text: str, canonical: str) -> None:
    assert show(parse(text)) == canonical
    assert show(parse(canonical)) == canonical


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        (" \n", "is empty"),
        ("len(text) >=", "at character 13"),
        ("len(text) > > 3", "at character 13"),
        ("é == 'é' and and b", "at character 14"),
        ("a and\nb ! c", "at character"),
        ("a)", "unmatched ')'"),
        ("a) + (b", "unbalanced parentheses"),
        ("x ** 2 > 3", "power (**) is not part of the language at character 1"),
        ("é == é ** 2", "power (**) is not part of the language at character 6"),
        ("x @ y", "@ is not part"),
        ("x & y", "the operator BitAnd is not part"),
        ("~x", "a Python UnaryOp"),
        ("text.strip", "the attribute '.strip' is not part"),
        ("text.__class__", "the attribute '.__class__'"),
        ("open('x')", "no function 'open'"),
        ("text.format(1)", "no function 'format'"),
        ("f(x)(y)", "no function"),
        ("len(x, y)", "len takes 1 arguments"),
        ("len(*x)", "plain arguments"),
        ("len(obj=x)", "plain arguments"),
        ("[c for c in x]", "a Python ListComp"),
        ("(c for c in x)", "a Python GeneratorExp"),
        ("lambda: 1", "a Python Lambda"),
        ("x if y else z", "a Python IfExp"),
        ("(x := 3)", "a Python NamedExpr"),
        ("f'{x}' == y", "a Python JoinedStr"),
        ("x[y]", "must be a text or an integer"),
        ("x[1:2]", "a Python Slice"),
        ("x[true]", "must be a text or an integer"),
        ("x is y", "'is' is for none only"),
        ("x == b'a'", "a constant of type bytes"),
        ("x == 2j", "a constant of type complex"),
        ("x == ...", "a constant of type ellipsis"),
        ("x == 1e999", "too large"),
        ("x == 1" + "0" * 400, "more than 1024 bits"),
        ("x == '\\ud800'", "lone surrogate"),
        ("has(1)", "has takes a column"),
        ("has(len(x))", "has takes a column"),
        ("field(x)", "field takes the name"),
        ("field('@key') == 1", "field takes the name"),
        ("x == 1" + " " * 4096, "4102 characters"),
        ("(" * 300 + "x" + ")" * 300, ""),
        ("not " * 1000 + "x", "nested"),
        ("-" * 4000 + "x", "nested"),
        ("x\0", ""),
        ("a; b", "at character 2"),
        ("import os", "at character"),
    ],
)
def test_refused(text: str, said: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse(text)
    assert said in str(caught.value)


def test_names() -> None:
    text = "len(text) > 3 and meta['x'] in [a, true] or has(b) and field('c-d') == -e and min(f, 1) < 2"
    assert names(parse(text)) == {"text", "meta", "a", "b", "c-d", "e", "f"}
