"""Grouping: by example, and what it refuses."""

from __future__ import annotations

import pytest

from dsbuild.order.group import groups

NEVER = (1 << 64) - 1


def test_large_files_stand_alone() -> None:
    assert groups([10, 5000, 10, 10], [NEVER] * 4, small=5000, group=1 << 20) == [(0, 1), (1, 2), (2, 4)]


def test_borders_by_content_and_by_force() -> None:
    # a weight of 10 + 1,024 in groups of 4,136: half is 2,068, so a hash under 2**63 makes a border
    assert groups([10] * 5, [NEVER, 0, 1 << 63, (1 << 63) - 1, NEVER], small=99, group=4136) == [(0, 2), (2, 4), (4, 5)]
    assert groups([10] * 5, [NEVER] * 5, small=99, group=4136) == [(0, 4), (4, 5)]
    assert groups([10] * 5, [NEVER] * 5, small=99, group=4135) == [(0, 3), (3, 5)]


def test_few_files() -> None:
    assert groups([], [], small=1, group=2) == []
    assert groups([0], [NEVER], small=1, group=1 << 20) == [(0, 1)]


def test_refusals() -> None:
    with pytest.raises(ValueError, match="groups of 1"):
        groups([1], [1], small=1, group=1)
    with pytest.raises(ValueError, match="files of -1"):
        groups([-1], [1], small=1, group=2)
    with pytest.raises(ValueError, match="zip"):
        groups([1, 2], [1], small=1, group=2)
