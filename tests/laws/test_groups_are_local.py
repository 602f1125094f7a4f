"""Law: groups cover all files in order within their limits, and an added file changes only groups near it."""

from __future__ import annotations

import hashlib
import random

from hypothesis import given, settings
from hypothesis import strategies as st

from dsbuild.order.group import FILE_COST, groups

SMALL, GROUP = 1 << 16, 1 << 20


def made(number, most=SMALL):
    drawn = random.Random(number)
    return drawn.randrange(most), int.from_bytes(hashlib.sha256(b"%d" % number).digest()[:8], "little")


def contents(files, rule=groups):
    runs = rule([size for size, _ in files], [hashed for _, hashed in files], small=SMALL, group=GROUP)
    assert [at for start, stop in runs for at in range(start, stop)] == list(range(len(files)))
    return [tuple(files[start:stop]) for start, stop in runs]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.one_of(st.integers(0, 3000), st.integers(0, 2 * SMALL)), st.integers(0, (1 << 64) - 1))))
def test_limits(files):
    for group in contents(files):
        assert group
        assert len(group) == 1 or all(size < SMALL for size, _ in group)
        assert len(group) == 1 or sum(size + FILE_COST for size, _ in group) <= GROUP


def changed_groups(rule, most=4000):
    """Groups of the new list that the old did not have, over 200 files added at random places; (mean, greatest)."""
    files = [made(number, most) for number in range(3000)]
    before = set(contents(files, rule))
    changes = []
    for number in range(200):
        at = random.Random(number).randrange(len(files))
        after = contents([*files[:at], made(10_000 + number, most), *files[at:]], rule)
        changes.append(sum(group not in before for group in after))
    return sum(changes) / len(changes), max(changes)


def test_an_added_file_disturbs_its_group():
    mean, greatest = changed_groups(groups)
    assert mean < 1.6 and greatest <= 6


def test_law_kills_groups_by_number():
    def by_number(sizes, hashes, *, small, group):
        return [(at, min(at + 100, len(sizes))) for at in range(0, len(sizes), 100)]

    mean, _ = changed_groups(by_number)
    assert mean > 10


def test_law_kills_groups_by_size_alone():
    def by_size(sizes, hashes, *, small, group):
        return groups(sizes, [(1 << 64) - 1] * len(sizes), small=small, group=group)

    mean, _ = changed_groups(by_size)
    assert mean > 3


def test_groups_weigh_about_half_the_limit():
    weights = [sum(size + FILE_COST for size, _ in group) for group in contents([made(n, 4000) for n in range(20_000)])]
    assert 0.35 < sum(weights) / len(weights) / GROUP < 0.5


def test_files_of_no_bytes_do_not_make_a_group_without_end():
    # equal files have equal hashes, so none of them may choose a border: the weight of each forces one
    assert len(contents([(0, (1 << 64) - 1)] * 10_000)) == 10
