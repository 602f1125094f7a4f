"""HuggingFace: the reference tokenizer engine, the ``tokenizers`` library, on a tokenizer.json.

What the file remembers of a run (truncation, padding) is switched off. Special-token text inside a text stays text:
the engine is told so, and because some models (Unigram) can still make the id out of their vocabulary, each result is
searched for the ids of special tokens. Added tokens that are not special are ordinary vocabulary and stay tokens.
Cost: texts are given to the engine in batches of about a million characters, so that its working memory stays small
beside the result. One text is never cut, because a cut could change its ids: measured with GPT-2, a single text of 20
million characters (6 million tokens) peaked at 2.5 GB, about 130 bytes a character; as short texts, at 0.1 GB.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

from dsbuild.canon import encode as canonical
from dsbuild.digest import Digest, Domain, of_bytes
from dsbuild.interfaces import RecordError

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Engine

BATCH_CHARACTERS = 1 << 18
BATCH_TEXTS = 64
"""Small batches keep the engine's results in the processor's caches: 10-20 % quicker than batches of 4,096."""
RUN_STATE = ("truncation", "padding")


class HuggingFace:
    """See ``dsbuild.interfaces.Tokenizer``. ``data``: the bytes of a tokenizer.json. Raises ``ValueError``.

    ``fingerprint``: that of these very bytes, where it is known already; making it costs 0.2 s a megabyte.
    """

    def __init__(self, data: bytes, fingerprint: Digest | None = None) -> None:
        self._parsed = parse(data)
        self._fingerprint = fingerprint
        self._engine = _engine(data)
        self._engine.no_truncation()
        self._engine.no_padding()
        self._engine.encode_special_tokens = True
        added = self._engine.get_added_tokens_decoder()
        self._added = {token.content: number for number, token in added.items()}
        unknown = _unknown(self._parsed["model"])
        special = {n for n, token in added.items() if token.special and token.content not in unknown}
        vocabulary = self._engine.get_vocab(with_added_tokens=True)
        self._unknown = {vocabulary[text] for text in unknown if text in vocabulary}
        self.size = max(vocabulary.values(), default=-1) + 1
        self._forbidden = np.zeros(self.size, np.bool_)
        self._forbidden[sorted(special)] = True
        self._dtype = np.dtype(np.uint16 if self.size <= 1 << 16 else np.uint32)

    @property
    def fingerprint(self) -> Digest:
        """Digest of the file's values but the state of a run: neither layout nor order of keys matter."""
        if self._fingerprint is None:
            kept = {key: value for key, value in self._parsed.items() if key not in RUN_STATE}
            self._fingerprint = of_bytes(Domain.TOKENIZER, canonical({"tokenizer.json": _tagged(kept)}))
        return self._fingerprint

    def encode(self, texts: Sequence[str], *, special: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """(values of uint16 or uint32 by ``size``, int64 offsets). See ``Tokenizer.encode``."""
        if self._engine.encode_special_tokens is special:
            self._engine.encode_special_tokens = not special
        offsets = np.zeros(len(texts) + 1, np.int64)
        found = [np.zeros(0, self._dtype)]
        for start, stop in _batches(texts):
            try:
                made = self._engine.encode_batch_fast(texts[start:stop], add_special_tokens=False)
            except Exception:
                _check_texts(texts, start, stop)
                raise
            lengths = [len(e) for e in made]
            offsets[start + 1 : stop + 1] = lengths
            ids = itertools.chain.from_iterable(e.ids for e in made)
            found.append(np.fromiter(ids, self._dtype, sum(lengths)))
        np.cumsum(offsets, out=offsets)
        values = np.concatenate(found)
        if not special:
            self._check_forged(values, offsets)
        return values, offsets

    def _check_forged(self, values: np.ndarray, offsets: np.ndarray) -> None:
        forged = self._forbidden[values]
        if forged.any():
            at = int(np.argmax(forged))
            row = int(np.searchsorted(offsets, at, "right")) - 1
            name = self._engine.id_to_token(int(values[at]))
            raise RecordError(
                row,
                f"the text contains {name!r}, which this tokenizer's model makes a special token of",
                hint='leave such records out, or set [tokenizer] special = "token" to accept it',
            )

    def token(self, text: str) -> int | None:
        """The id of an added token of that content, else of a text that is encoded as exactly one known token."""
        if text in self._added:
            return self._added[text]
        found = self.ids(text)
        return found[0] if len(found) == 1 and found[0] not in self._unknown else None

    @property
    def special(self) -> tuple[str, ...]:
        """The added tokens, sorted: for hints."""
        return tuple(sorted(self._added))

    def ids(self, text: str) -> list[int]:
        """What the engine makes of one text, special tokens being text."""
        self._engine.encode_special_tokens = True
        return list(self._engine.encode(text, add_special_tokens=False).ids)

    def decode(self, ids: Iterable[int]) -> str:
        """Text of ``ids``, special tokens shown."""
        return str(self._engine.decode([int(i) for i in ids], skip_special_tokens=False))


def parse(data: bytes) -> dict[str, Any]:
    """The JSON of a tokenizer.json, decimals exact. Raises ``ValueError`` that says what is wrong."""
    try:
        value = json.loads(data.decode("utf-8"), parse_float=Decimal, parse_constant=_no_constant)
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"not JSON: {error}") from None
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(value, dict) or not isinstance(value.get("model"), dict):
        raise ValueError('no tokenizer.json: it has no table "model"')
    if value["model"].get("dropout"):
        raise ValueError(
            f"its model has dropout {value['model']['dropout']}: it would give other ids each time; remove it"
        )
    return value


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")


def _engine(data: bytes) -> Engine:
    from tokenizers import Tokenizer as Engine

    try:
        return Engine.from_str(data.decode("utf-8"))
    except BaseException as error:
        # Rust's panics are no Exception
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise ValueError(f"the tokenizers library refuses it: {error}") from None


def _unknown(model: Mapping[str, Any]) -> set[str]:
    """Texts of the unknown token, whose id is a legitimate result."""
    found = {model["unk_token"]} if isinstance(model.get("unk_token"), str) else set()
    number, vocabulary = model.get("unk_id"), model.get("vocab")
    if isinstance(number, int) and isinstance(vocabulary, list) and 0 <= number < len(vocabulary):
        found.add(vocabulary[number][0])
    return found


def _tagged(value: Any) -> Any:
    """``value`` with nulls made visible to the canonical encoding, which omits or refuses them."""
    if value is None:
        return {"null": ""}
    if isinstance(value, dict):
        return {key: _tagged(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_tagged(item) for item in value]
    return value


def _batches(texts: Sequence[str]) -> Iterator[tuple[int, int]]:
    start = size = 0
    for i, text in enumerate(texts):
        if i > start and (size + len(text) > BATCH_CHARACTERS or i - start >= BATCH_TEXTS):
            yield start, i
            start, size = i, 0
        size += len(text)
    if start < len(texts):
        yield start, len(texts)


def _check_texts(texts: Sequence[str], start: int, stop: int) -> None:
    for row in range(start, stop):
        try:
            texts[row].encode("utf-8")
        except UnicodeEncodeError as error:
            raise RecordError(row, f"text with a lone surrogate at character {error.start}") from None
