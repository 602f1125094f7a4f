"""Mixing: a mixture's numbers become its stream, or an error that names the mixture, the source and the numbers."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from dsbuild.digest import Digest
from dsbuild.errors import BuildError
from dsbuild.graph import Derivation, ViewSize, mixture_of
from dsbuild.order.mix import Mixture

Y, Z = (Digest(bytes([n]) * 32) for n in (1, 2))


def made(sizes: list[tuple[int, int]], **arguments: Any) -> Mixture:
    views = [ViewSize(label=f"source.{n}", examples=e, tokens=t) for n, (e, t) in zip("yz", sizes, strict=False)]
    inputs = [d.hex for d in (Y, Z)][: len(sizes)]
    spec = Derivation(
        kind="mixture", builder="mixture@1", inputs=inputs, arguments={"weights": [1] * len(sizes), **arguments}
    )
    return mixture_of(spec, "train", views)


STAGES = [{"from": 0, "weights": [0, 1]}, {"from": 1000, "weights": [1, 0]}]


@pytest.mark.parametrize(
    ("sizes", "arguments", "kind", "message"),
    [
        (
            [(2, 9), (2, 0)],
            {"by": "tokens"},
            "empty",
            'source.z has no token in its 2 examples, and by = "tokens" weighs by them',
        ),
        ([(2, 9), (0, 0)], {}, "empty", "source.z gives no example"),
        (
            [(3, 9), (2, 9)],
            {"until": Fraction(1), "stages": STAGES},
            "empty",
            "stage 0 has 2 examples, all that its sources may give, but stage 1 starts at 1,000"
            " (source.y: 3 examples, source.z: 2 examples)",
        ),
        (
            [(3, 9), (2, 9)],
            {"max_epochs": {Z.hex: Fraction(1, 10)}},
            "empty",
            "source.z gives no example: max_epochs = 0.1 of its 2 examples",
        ),
        (
            [(3, 9), (2, 9)],
            {"until": Fraction(1, 10)},
            "empty",
            "gives no example: until = { epochs = 0.1 } of source.y: 3 examples, source.z: 2 examples",
        ),
        (
            [(3, 9), (2, 9)],
            {"until": 10**18},
            "bad-value",
            "a limit must be from 0 to 2**60 (source.y: 3 examples, source.z: 2 examples)",
        ),
        (
            [(3, 9), (10**6, 9)],
            {"weights": [1 << 47, 1]},
            "bad-value",
            "a stream of over 2**60 examples: a weight is too small, or a cap too large, for its source"
            " (source.y: 3 examples, source.z: 1,000,000 examples)",
        ),
    ],
)
def test_no_stream(sizes: list[tuple[int, int]], arguments: dict[str, Any], kind: str, message: str) -> None:
    with pytest.raises(BuildError) as caught:
        made(sizes, **arguments)
    assert (caught.value.kind, str(caught.value)) == (kind, f"mixture.train: {message}")
    assert caught.value.diagnostics[0].hint


@pytest.mark.parametrize("until", ["all", "first", Fraction(5)])
def test_a_cap_that_no_stream_reaches_is_none(until: Any) -> None:
    capped = made([(3, 9), (2, 9)], until=until, max_epochs={Y.hex: 10**18, Z.hex: 10**30})
    free = made([(3, 9), (2, 9)], until=until)
    assert capped.length == free.length
    assert capped.locate(0, 5)[0].tolist() == free.locate(0, 5)[0].tolist()


def test_weights_by_tokens() -> None:
    stream = made([(100, 1000), (100, 4000)], by="tokens", until=None)
    assert stream.stages[0].weights == (4, 1)
