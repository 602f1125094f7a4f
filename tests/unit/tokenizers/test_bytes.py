"""The built-in bytes tokenizer."""

from __future__ import annotations

from dsbuild.testing import tokenizers as suite
from dsbuild.tokenizers.bytes import Bytes


def test_conformance() -> None:
    suite.check_tokenizer(Bytes)
    suite.check_round_trip(Bytes(), suite.ADVERSARIAL)
    for special in ("<eos>", "<bos>", "<pad>"):
        suite.check_special_is_text(Bytes(), special)


def test_ids() -> None:
    tokenizer = Bytes()
    values, offsets = tokenizer.encode(["é", "", "<eos>"], special=True)
    assert values.tolist() == [195, 169, *b"<eos>"] and offsets.tolist() == [0, 2, 2, 7]
    assert tokenizer.size == 259
    assert [tokenizer.token(t) for t in ("<eos>", "<bos>", "<pad>", "a", "é", "")] == [256, 257, 258, 97, None, None]
    assert tokenizer.decode([104, 105, 256, 195]) == "hi<eos>\ufffd"
    assert tokenizer.fingerprint.hex == "54204a8f5eef07778c213c810b3d9d8fe8369e4982890b795187cac97f1e0e40"
