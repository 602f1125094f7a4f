"""Conformance of tokenizers: what identity and resumed builds rely on, as plain functions that raise AssertionError."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from dsbuild.interfaces import RecordError, Tokenizer

ADVERSARIAL: tuple[str, ...] = (
    "",
    " ",
    "\n\n\r\n\t \x0b\x0c",
    "\0\x01\x7f\x80\x9f",
    "a" * 3000,
    " " * 3000,
    "don't DON'T we'll 'S",
    "naïve café — „Zitat“ …",
    "e\u0301 \u0301 \u200d \u200b \ufeff \u2028 \u00ad",
    "日本語のテキスト、漢字 かな カナ",
    "한국어 조선말 ᄒ\u1161\u11ab",
    "العربية עברית हिन्दी ไทย",
    "😀 👩‍👩‍👧‍👦 🏳️‍🌈 \U0010ffff \ue000",
    "0 12 345 6789 1_000 3.14e-10 ⅷ ²",
    "def f(x):\n    return x**2  # comment\n\n\n",
    "<s> </s> <|endoftext|> [CLS] [SEP] <unk> <eos> <bos> <pad> <|im_start|>",
    "ＦＵＬＬ ﬁ ﷺ Ǆ ß İ ı",
)
"""Texts at which engines and wrappers went wrong."""


def check_tokenizer(make: Callable[[], Tokenizer], texts: Sequence[str] = ADVERSARIAL) -> None:
    """All that follows, on texts that it can encode."""
    check_form(make(), texts)
    check_batches(make(), texts)
    check_fingerprint(make)
    check_surrogates(make())
    check_tokens(make())


def check_form(tokenizer: Tokenizer, texts: Sequence[str]) -> None:
    """uint16 or uint32 ids below ``size``; int64 offsets from 0 to the number of ids, one more than texts."""
    assert isinstance(tokenizer, Tokenizer)
    for given in (texts, texts[:1], []):
        values, offsets = tokenizer.encode(given)
        assert values.dtype in (np.uint16, np.uint32) and values.ndim == 1
        assert offsets.dtype == np.int64 and len(offsets) == len(given) + 1
        assert offsets[0] == 0 and offsets[-1] == len(values) and (np.diff(offsets) >= 0).all()
        assert not len(values) or int(values.max()) < tokenizer.size
    assert tokenizer.size <= 1 << 16 or tokenizer.encode(["a"])[0].dtype == np.uint32


def check_batches(tokenizer: Tokenizer, texts: Sequence[str]) -> None:
    """A batch gives what its texts give one by one, in any order, again and again."""
    alone = [tokenizer.encode([text])[0].tolist() for text in texts]
    for order in (range(len(texts)), reversed(range(len(texts)))):
        rows = list(order)
        values, offsets = tokenizer.encode([texts[i] for i in rows])
        for place, i in enumerate(rows):
            found = values[offsets[place] : offsets[place + 1]].tolist()
            assert found == alone[i], f"{texts[i]!r:.60} in a batch gives other ids than alone"


def check_fingerprint(make: Callable[[], Tokenizer]) -> None:
    """Two of the same have one fingerprint, and use does not move it."""
    one, two = make(), make()
    before = one.fingerprint
    one.encode(["use"], special=True)
    one.token("use")
    one.decode([0])
    assert before == one.fingerprint == two.fingerprint, "the fingerprint is not that of the files alone"


def check_fingerprint_differs(one: Tokenizer, two: Tokenizer, texts: Sequence[str] = ADVERSARIAL) -> None:
    """Where two give other ids, their fingerprints differ."""
    same = all(np.array_equal(a, b) for a, b in zip(one.encode(texts), two.encode(texts), strict=True))
    assert same or one.fingerprint != two.fingerprint, "other ids under one fingerprint"


def check_round_trip(tokenizer: Tokenizer, texts: Sequence[str]) -> None:
    """``decode`` gives the text back: for tokenizers that lose nothing (byte level)."""
    values, offsets = tokenizer.encode(texts)
    for i, text in enumerate(texts):
        back = tokenizer.decode(values[offsets[i] : offsets[i + 1]])
        assert back == text, f"{text!r:.60} comes back as {back!r:.60}"


def check_surrogates(tokenizer: Tokenizer) -> None:
    """A lone surrogate, which UTF-8 can't hold, is a ``RecordError`` that names the text."""
    try:
        tokenizer.encode(["fine", "half \ud83d a face"])
    except RecordError as error:
        assert error.row == 1 and "surrogate" in error.message
    else:
        raise AssertionError("a lone surrogate was encoded")


def check_tokens(tokenizer: Tokenizer) -> None:
    """``token`` gives an id below ``size``, or None for a text that is not one token."""
    assert tokenizer.token("quite certainly not one token \ue000") is None
    for text in ("a", "<eos>", "</s>", "<|endoftext|>"):
        found = tokenizer.token(text)
        assert found is None or 0 <= found < tokenizer.size


def check_special_is_text(tokenizer: Tokenizer, special: str) -> None:
    """The text of the token ``special`` stays text inside a document, and becomes its id only when asked."""
    number = tokenizer.token(special)
    assert number is not None, f"{special!r} is no token"
    for text in (special, f"a{special}b", f"{special}{special}", f" {special} ", f"a\n{special}\n"):
        try:
            values, _ = tokenizer.encode([text])
        except RecordError:  # refused is as good: it can't be forged
            continue
        assert number not in values, f"{text!r} forges the token {special!r}"
