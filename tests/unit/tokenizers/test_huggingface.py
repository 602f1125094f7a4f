"""The reference engine: small tokenizers made here, and GPT-2 where the sample data is."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dsbuild.interfaces import RecordError
from dsbuild.testing import tokenizers as suite
from dsbuild.tokenizers.huggingface import HuggingFace

DATA = Path(os.environ.get("DSBUILD_TEST_DATA", "/nonexistent"))
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="DSBUILD_TEST_DATA is not set")


def added(number: int, content: str, special: bool = True) -> dict[str, Any]:
    plain = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": number, "content": content, **plain, "special": special}


def byte_alphabet() -> list[str]:
    """The 256 characters by which byte-level models write bytes (GPT-2's table)."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    other = [b for b in range(256) if b not in shown]
    table = {b: chr(b) for b in shown} | {b: chr(256 + i) for i, b in enumerate(other)}
    return [table[b] for b in range(256)]


def bpe() -> dict[str, Any]:
    """A byte-level BPE with one merge, a special token and an added one that is not special."""
    vocabulary = {c: i for i, c in enumerate(byte_alphabet())} | {"ab": 256}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [added(257, "</s>"), added(258, "<tool>", special=False)],
        "normalizer": None,
        "pre_tokenizer": level,
        "post_processor": None,
        "decoder": level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "vocab": vocabulary, "merges": [["a", "b"]]},
    }


def unigram() -> dict[str, Any]:
    """A Unigram model whose vocabulary holds its special tokens, as sentencepiece models do."""
    pieces = [["<unk>", 0.0], ["</s>", 0.0], ["a", -1.0], ["<", -2.0], ["/", -2.0], ["s", -2.0], [">", -2.5]]
    return {
        "added_tokens": [added(0, "<unk>"), added(1, "</s>")],
        "model": {"type": "Unigram", "unk_id": 0, "vocab": pieces, "byte_fallback": False},
    }


def make(value: dict[str, Any]) -> HuggingFace:
    return HuggingFace(json.dumps(value).encode())


def test_conformance() -> None:
    suite.check_tokenizer(lambda: make(bpe()))
    suite.check_round_trip(make(bpe()), suite.ADVERSARIAL)
    suite.check_special_is_text(make(bpe()), "</s>")
    suite.check_special_is_text(make(unigram()), "</s>")


def test_special_tokens() -> None:
    tokenizer = make(bpe())
    text = "ab</s><tool>"
    assert (
        tokenizer.encode([text])[0].tolist()
        == [256, *b"</s>", 258]
        != tokenizer.encode([text], special=True)[0].tolist()
    )
    assert tokenizer.encode([text], special=True)[0].tolist() == [256, 257, 258]
    assert tokenizer.encode([text])[0].tolist() == [256, *b"</s>", 258]
    tokens = {t: tokenizer.token(t) for t in ("</s>", "<tool>", "ab", "a", "abc", "Ġ", " ", "")}
    assert tokens == {"</s>": 257, "<tool>": 258, "ab": 256, "a": 97, "abc": None, "Ġ": None, " ": 32, "": None}
    assert tokenizer.size == 259
    assert tokenizer.decode([256, 257]) == "ab</s>"


def test_a_model_that_forges_is_refused() -> None:
    tokenizer = make(unigram())
    with pytest.raises(
        RecordError, match="contains '</s>', which this tokenizer's model makes a special token"
    ) as caught:
        tokenizer.encode(["a", "", "a</s>a", "a"])
    assert caught.value.row == 2
    assert tokenizer.encode(["a</s>a"], special=True)[0].tolist() == [2, 1, 2]
    assert tokenizer.encode(["az"])[0].tolist() == [2, 0], "the unknown token is a legitimate result"


def test_state_of_a_run_is_switched_off() -> None:
    value = bpe()
    value["truncation"] = {"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0}
    value["padding"] = {
        "strategy": {"Fixed": 9},
        "direction": "Right",
        "pad_to_multiple_of": None,
        "pad_id": 0,
        "pad_type_id": 0,
        "pad_token": "</s>",
    }
    assert make(value).encode(["abcd"])[0].tolist() == [256, 99, 100]
    assert make(value).fingerprint == make(bpe()).fingerprint


def test_fingerprint_ignores_layout() -> None:
    value = bpe()
    back = {k: value[k] for k in reversed(value)}
    back["model"]["vocab"] = dict(reversed(value["model"]["vocab"].items()))
    assert HuggingFace(json.dumps(back, indent=3, ensure_ascii=True).encode()).fingerprint == make(bpe()).fingerprint


def _set(path: str, to: Any) -> Callable[[dict[str, Any]], None]:
    def change(value: dict[str, Any]) -> None:
        *keys, last = [int(k) if k.isdigit() else k for k in path.split(".")]
        for key in keys:
            value = value[key]
        value[last] = to

    return change


@pytest.mark.parametrize(
    ("base", "change"),
    [
        (bpe, _set("model.merges", [])),
        (bpe, _set("model.vocab", {**bpe()["model"]["vocab"], "c": 100, "d": 99})),
        (bpe, _set("added_tokens.1.special", True)),
        (bpe, _set("added_tokens", bpe()["added_tokens"][:1])),
        (bpe, _set("normalizer", {"type": "Lowercase"})),
        (bpe, _set("pre_tokenizer.add_prefix_space", True)),
        (unigram, _set("model.vocab.2.1", -1.0000000000000002)),
        (unigram, _set("model.unk_id", 1)),
    ],
)
def test_fingerprint_sees_what_matters(
    base: Callable[[], dict[str, Any]], change: Callable[[dict[str, Any]], None]
) -> None:
    value = base()
    change(value)
    assert make(value).fingerprint != make(base()).fingerprint


def test_fingerprint_is_golden() -> None:
    assert make(bpe()).fingerprint.hex == "dbcfd2cae63021b0bb77b6b38b1ba0d8c62cfd230c158a37a552622927a87af6"
    assert make(unigram()).fingerprint.hex == "02bfc37554f5b52c4cdd7cd6dee6aee0d053ac47861f5054798a7b160e352c3e"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "not JSON"),
        (b"\xff", "not JSON"),
        (b"[1]", 'no table "model"'),
        (b"[" * 100_000, ""),
        (b'{"model": {"x": NaN}}', "NaN"),
        (b'{"model": {"type": "Nonsense"}}', "the tokenizers library refuses it"),
        (json.dumps({**bpe(), "model": {**bpe()["model"], "dropout": 0.1}}).encode(), "dropout 0.1"),
    ],
)
def test_what_is_no_tokenizer(data: bytes, said: str) -> None:
    with pytest.raises(ValueError) as caught:
        HuggingFace(data)
    assert said in str(caught.value)


def test_batches_of_many_texts_and_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dsbuild.tokenizers.huggingface.BATCH_CHARACTERS", 10)
    monkeypatch.setattr("dsbuild.tokenizers.huggingface.BATCH_TEXTS", 3)
    tokenizer = make(bpe())
    texts = ["ab" * (i % 9) for i in range(50)]
    values, offsets = tokenizer.encode(texts)
    assert np.diff(offsets).tolist() == [i % 9 for i in range(50)] and set(values.tolist()) == {256}
    with pytest.raises(RecordError) as caught:
        tokenizer.encode([*texts, "\udc80", "a"])
    assert caught.value.row == 50


@needs_data
def test_gpt2() -> None:
    tokenizer = HuggingFace((DATA / "gpt2_tokenizer.json").read_bytes())
    lines = (DATA / "multilingual.jsonl").read_text("utf-8").splitlines()
    texts = [json.loads(line)["text"] for line in lines]
    suite.check_round_trip(tokenizer, texts)
    suite.check_round_trip(tokenizer, suite.ADVERSARIAL)
    suite.check_special_is_text(tokenizer, "<|endoftext|>")
    values, offsets = tokenizer.encode(texts)
    assert values.dtype == np.uint16 and tokenizer.size == 50_257 and len(offsets) == len(texts) + 1
    assert tokenizer.token("<|endoftext|>") == 50_256
    assert tokenizer.encode(["<|endoftext|>"], special=True)[0].tolist() == [50_256]


@needs_data
def test_gpt2_equals_the_bare_library() -> None:
    from tokenizers import Tokenizer

    data = (DATA / "gpt2_tokenizer.json").read_bytes()
    bare = Tokenizer.from_str(data.decode())
    texts = [
        json.loads(line)["question"] for line in (DATA / "gsm8k_train.jsonl").read_text("utf-8").splitlines()[:500]
    ]
    values, offsets = HuggingFace(data).encode(texts)
    for i, text in enumerate(texts):
        assert values[offsets[i] : offsets[i + 1]].tolist() == bare.encode(text, add_special_tokens=False).ids
