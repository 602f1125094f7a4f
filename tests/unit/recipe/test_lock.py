from __future__ import annotations

import pytest

from dsbuild.digest import Digest
from dsbuild.errors import LockError
from dsbuild.recipe import HandlerSpec, Lock, LockedData, LockedFile, LockedLibrary, LockedSource, SourceSpec


def file(name: str, pattern: str, source: str = "web") -> LockedFile:
    return LockedFile(source=source, pattern=pattern, name=name, id=Digest(bytes(32)), size=1)


LOCK = Lock.of(
    [
        *(file(name, "*") for name in ("b", "a", "Z")),
        file("q/c", "q"),
        file("0", "x", "web2"),
        file("1", "x", "wea"),
        LockedSource(name="web", patterns=("q", "*")),
        LockedSource(name="web2", patterns=("x",)),
        LockedSource(name="wea", patterns=("x",)),
        LockedData(name="words.txt", id=Digest(bytes([1] * 32)), size=3),
        LockedLibrary(name="unicode", version_class="14.0"),
        LockedLibrary(name="ftfy", version_class="6.3"),
    ]
)


def test_files_in_the_order_of_the_recipe() -> None:
    assert [f.name for f in LOCK.files("web", ["q", "*"])] == ["q/c", "Z", "a", "b"]
    assert [f.name for f in LOCK.files("web2", ["x"])] == ["0"]
    assert [f.name for f in LOCK.of_source("web")] == ["Z", "a", "b", "q/c"]


@pytest.mark.parametrize(("name", "patterns"), [("web", ["*", "q"]), ("web", ["*"]), ("new", ["*"])])
def test_other_patterns_are_not_answered(name: str, patterns: list[str]) -> None:
    with pytest.raises(LockError) as caught:
        LOCK.files(name, patterns)
    assert caught.value.kind == "lock-mismatch"
    assert f"--update {name}" in str(caught.value.diagnostics[0].hint)


def test_accessors() -> None:
    assert LOCK.data() == {"words.txt": "b3:" + "01" * 32}
    assert LOCK.libraries() == {"unicode": "14.0", "ftfy": "6.3"}


def user(**more: tuple[str, ...]) -> tuple[HandlerSpec, ...]:
    return (HandlerSpec(use="clean.py:clean", arguments={}, **more),)


@pytest.mark.parametrize(
    ("source", "covered"),
    [
        (SourceSpec(name="web", files=("q", "*")), True),
        (SourceSpec(name="web", files=("*", "q")), False),
        (SourceSpec(name="web", files=("q",)), False),
        (SourceSpec(name="new", files=("q",)), False),
        (SourceSpec(name="new", inputs=("web",)), True),
        (SourceSpec(name="new", inputs=("web",), handlers=user(reads=("words.txt",), requires=("ftfy",))), True),
        (SourceSpec(name="new", inputs=("web",), handlers=user(reads=("other.txt",))), False),
        (SourceSpec(name="new", inputs=("web",), handlers=user(requires=("regex",))), False),
    ],
)
def test_what_the_lock_covers(source: SourceSpec, covered: bool) -> None:
    assert LOCK.covers(source) is covered


def test_user_python_needs_the_class_of_unicode() -> None:
    source = SourceSpec(name="new", inputs=("web",), handlers=user())
    assert LOCK.covers(source)
    assert not Lock.of([]).covers(source)
