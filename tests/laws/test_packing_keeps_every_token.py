"""Law: an epoch has every token as often, and where, as its packing says; arrays are those of a model made of lists."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import dsbuild.load.gather as gather
import dsbuild.load.source as source
from dsbuild.errors import NotFoundError
from dsbuild.order import fit
from dsbuild.schema import Field

IDS = Field(name="input_ids", dtype="uint16", shape=(None,))
LABELS = Field(name="labels", dtype="int32", shape=(None,))
PAD = 60_000


@dataclass(frozen=True)
class Case:
    """Records as lists of (record, token, label), each token once; ``rows``: those of a split; ``files``: of parts."""

    length: int
    pack: str
    mask: str
    parts: list
    files: list
    rows: list | None = None
    readers: int = 0
    overlong: str = "cut"
    own: bool = False

    def chosen(self, part):
        """(row, record) of the records that a part gives, cut to what an example holds."""
        rows = range(len(self.parts[part])) if self.rows is None else self.rows[part]
        found = [(row, self.parts[part][row]) for row in rows]
        if self.pack == "concat":
            return found
        if self.overlong == "drop":
            return [(row, record) for row, record in found if len(record) <= self.length + 1]
        return [(row, record[: self.length + 1]) for row, record in found]

    def bins(self, part):
        """Rows of each example of a part."""
        chosen = self.chosen(part)
        pack = fit.fit if self.pack == "fit" else fit.each
        borders, members = pack([len(record) for _, record in chosen], self.length + 1)
        return [[chosen[m][0] for m in members[a:b]] for a, b in pairwise(borders)]


def publish(shelf, case, **examples):
    columns = {"input_ids": (IDS, 1), **({"labels": (LABELS, 2)} if case.own else {})}
    parts = [
        {name: (field, [[t[at] for t in record] for record in part]) for name, (field, at) in columns.items()}
        for part in case.parts
    ]
    view = shelf.records(parts, case.files)
    if case.rows is not None:
        view = shelf.split(view, case.rows)
    if case.pack == "fit" or case.overlong == "drop":
        view = shelf.pack(view, [case.bins(p) for p in range(len(parts))], case.length)
    if case.readers:
        view = shelf.deal(view, case.readers)
    told = {"length": case.length, "pack": case.pack, "pad": PAD, **examples}
    if case.mask != "none":
        told["mask"] = case.mask
    if case.pack != "concat":
        told["overlong"] = case.overlong
    return shelf.dataset(view, **told)


def in_turn(lines):
    while any(lines):
        for line in lines:
            if line:
                yield line.pop(0)


def readers_of(case):
    """The numbers of each reader's parts."""
    numbers = list(range(len(case.parts)))
    if not case.readers:
        return [numbers]
    dealt = list(in_turn([[p for p in numbers if case.files[p] == f] for f in sorted(set(case.files))]))
    return [dealt[reader :: case.readers] for reader in range(case.readers)]


def streams(case):
    """The tokens of each reader, where packing runs across records."""
    return [[t for part in parts for _, record in case.chosen(part) for t in record] for parts in readers_of(case)]


def rows_of(case):
    """Tokens of each example, in order: L + 1 at most."""
    length = case.length
    if case.pack == "concat":
        lines = [[line[at : at + length + 1] for at in range(0, len(line) - 1, length)] for line in streams(case)]
    else:
        lines = []
        for parts in readers_of(case):
            lines.append([])
            for part in parts:
                records = dict(case.chosen(part))
                bins = case.bins(part) if case.pack == "fit" else [[row] for row in records]
                lines[-1] += [[t for row in b for t in records[row]] for b in bins]
    return list(in_turn(lines))


def arrays(case, row):
    """The arrays of an example, as lists."""
    length, masked = case.length, case.mask != "none"
    inputs = row[:length]
    rest = [0] * (length - len(inputs))
    labels = [
        (after[2] if case.own else after[1]) if not masked or after[0] == before[0] else -100
        for before, after in pairwise(row)
    ]
    found = {
        "input_ids": [t[1] for t in inputs] + [PAD for _ in rest],
        "labels": labels + [-100] * (length - len(labels)),
    }
    if masked:
        starts = [at for at, t in enumerate(inputs) if at == 0 or t[0] != inputs[at - 1][0]]
        segments = [sum(start <= at for start in starts) for at in range(len(inputs))]
        found["segment_ids"] = segments + rest
        found["position_ids"] = [at - starts[segments[at] - 1] for at in range(len(inputs))] + rest
        found["borders"] = starts + [len(inputs)] * bool(rest)
    if case.mask == "prefix":
        prefix = []
        for at, token in enumerate(inputs):
            before = [t for t in inputs[: at + 1] if t[0] == token[0]]
            prefix.append(int(all(t[2] == -100 for t in before)))
        found["prefix_mask"] = prefix + rest
    return found


def equals_the_model(case, dataset):
    expected = [arrays(case, row) for row in rows_of(case)]
    assert len(dataset) == len(expected)
    got = dataset.examples(0, len(dataset), columns=dataset.shape.known, dtype=np.uint16)
    borders = [at * case.length + b for at, e in enumerate(expected) for b in e.pop("borders", [])]
    for name in expected[0]:
        assert got[name].tolist() == [e[name] for e in expected], name
    if case.mask != "none":
        assert got["cu_seqlens"].tolist() == [*borders, len(expected) * case.length]
    assert set(got) == {*expected[0], *(["cu_seqlens"] if case.mask != "none" else [])}


def keeps_every_token(case, dataset):
    """Counted in the arrays of one epoch, in whatever order, against the rule and not the model."""
    got = dataset.examples(0, len(dataset), dtype=np.uint16)
    inputs, targets = (Counter(got[n].ravel().tolist()) for n in ("input_ids", "labels"))
    inputs.pop(PAD, None)
    targets.pop(-100, None)
    records = [record for part in range(len(case.parts)) for _, record in case.chosen(part)]
    if case.pack == "concat":
        lines = [line for line in streams(case) if len(line) > 1]
        wanted = {t[1] for line in lines for t in line}
        firsts, lasts = {line[0][1] for line in lines}, {line[-1][1] for line in lines}
    else:
        rows = [row for row in rows_of(case) if row]
        wanted = {t[1] for record in records for t in record}
        firsts, lasts = {row[0][1] for row in rows}, {row[-1][1] for row in rows if len(row) == case.length + 1}
    if case.mask != "none":
        firsts |= {record[0][1] for record in records if record}
    ignored = {t[1] for record in records for t in record if case.own and t[2] == -100}
    assert set(targets) == wanted - firsts - ignored
    assert set(inputs) <= wanted and wanted - set(inputs) <= lasts
    assert set((targets + Counter()).values()) <= {1} and set(inputs.values()) <= {1}
    assert targets.total() == len(wanted - firsts - ignored)


@st.composite
def cases(draw, pack):
    length = draw(st.integers(1, 8))
    sizes = st.sampled_from([0, 1, 2, 3, length - 1, length, length + 1, length + 2, 2 * length + 1])
    own = draw(st.booleans())
    masks = ["none", "document", *(["prefix"] if own and pack != "concat" else [])]
    parts, token = [], 0
    for _ in range(draw(st.integers(1, 4))):
        part = []
        for size in draw(st.lists(sizes, max_size=6)):
            ids = range(token, token + size)
            token += size
            loss = draw(st.lists(st.booleans(), min_size=size, max_size=size)) if own else [True] * size
            part.append(
                [(len(part) + 100 * len(parts), t, t if keep else -100) for t, keep in zip(ids, loss, strict=True)]
            )
        parts.append(part)
    rows = [sorted(draw(st.sets(st.integers(0, len(p) - 1)))) if p else [] for p in parts]
    return Case(
        length=length,
        pack=pack,
        mask=draw(st.sampled_from(masks)),
        parts=parts,
        files=sorted(draw(st.lists(st.integers(0, 2), min_size=len(parts), max_size=len(parts)))),
        rows=draw(st.sampled_from([None, rows])),
        readers=draw(st.integers(0, 3)),
        overlong=draw(st.sampled_from(["cut", "drop"])) if pack != "concat" else "cut",
        own=own,
    )


def opened(shelf, case, **examples):
    found = None
    with suppress(NotFoundError):  # no example at all
        found = publish(shelf, case, **examples)
    assume(found is not None)
    return found


@pytest.mark.parametrize("pack", ["concat", "fit", "none"])
def test_the_model(shelf, pack):
    @settings(max_examples=40, deadline=None)
    @given(cases(pack))
    def check(case):
        dataset = opened(shelf, case)
        equals_the_model(case, dataset)
        keeps_every_token(case, dataset)

    check()


@pytest.mark.parametrize("pack", ["concat", "fit", "none"])
@pytest.mark.parametrize("shuffle", ["full", {"block": 2, "window": 2}, {"era": 3}])
def test_shuffled(shelf, pack, shuffle):
    @settings(max_examples=8, deadline=None)
    @given(cases(pack))
    def check(case):
        keeps_every_token(case, opened(shelf, case, shuffle=shuffle))

    check()


def test_an_example_is_none_if_nothing_is_there(shelf):
    with pytest.raises(NotFoundError):
        publish(shelf, case_of([1], pack="concat"))


def case_of(sizes, length=4, pack="concat", mask="none", **more):
    """One part of records of ``sizes``."""
    tokens = iter(range(1000))
    part = [[(n, t, t) for t in (next(tokens) for _ in range(size))] for n, size in enumerate(sizes)]
    return Case(length=length, pack=pack, mask=mask, parts=[part], files=[0], **more)


@pytest.mark.parametrize("sizes", [[4], [5], [6], [4, 1], [5, 4], [3, 2, 4], [0, 5, 0], [1, 1, 1], [2], [4, 4, 1, 0]])
@pytest.mark.parametrize("pack", ["concat", "fit", "none"])
def test_borders(shelf, pack, sizes):
    """Rows that end where an example does, one token before and one after."""
    for mask in ("none", "document"):
        case = case_of(sizes, pack=pack, mask=mask)
        dataset = publish(shelf, case)
        equals_the_model(case, dataset)
        keeps_every_token(case, dataset)


def broken_windows(self, examples):
    """Windows that do not share a token."""
    starts, stops = WINDOWS(self, examples)
    return starts, np.minimum(starts + self.shape.length, stops)


def shorter(pieces):
    return lambda part, which, most, opener: pieces(part, which, most - 1, opener)


def careless_labels(stretch, start, stop, last, dtype, flat):
    """A document's first token as a target of the one before."""
    return LABELED(stretch, start, stop, last, dtype, None)


def careless_turns(stretch, start, stop, last, dtype, flat):
    """As the last target of a row."""
    found = LABELED(stretch, start, stop, last, dtype, flat)
    found[stretch.tokens[start:stop] > stretch.shape.length, -1] = last[
        stretch.tokens[start:stop] > stretch.shape.length, -1
    ]
    return found


WINDOWS, LABELED = source.Source.windows, gather._labels
MUTANTS = {
    "no overlap": (case_of([9, 9]), source.Source, "windows", broken_windows),
    "bins cut": (case_of([5, 2], pack="fit"), source, "bin_pieces", shorter(source.bin_pieces)),
    "records cut": (case_of([5, 2], pack="none"), source, "record_pieces", shorter(source.record_pieces)),
    "targets across documents": (case_of([3, 4], mask="document"), gather, "_labels", careless_labels),
    "targets across rows": (case_of([4, 4], mask="document"), gather, "_labels", careless_turns),
}


@pytest.mark.parametrize("mutant", MUTANTS)
@pytest.mark.parametrize("law", [equals_the_model, keeps_every_token])
def test_laws_kill(shelf, mutant, law):
    case, owner, name, broken = MUTANTS[mutant]
    dataset = publish(shelf, case)
    law(case, dataset)
    with patch.object(owner, name, broken), pytest.raises(AssertionError):
        law(case, dataset)


@pytest.mark.parametrize("name", ["segment_ids", "position_ids", "cu_seqlens"])
def test_the_model_kills_wrong_masks(shelf, name):
    case = case_of([3, 4, 2], mask="document")
    dataset = publish(shelf, case)
    right = gather._MASKS[name]
    with patch.dict(gather._MASKS, {name: lambda flat: right(flat) + 1}), pytest.raises(AssertionError):
        equals_the_model(case, dataset)


def test_the_model_kills_a_prefix_one_too_long(shelf):
    part = [[(0, 1, -100), (0, 2, -100), (0, 3, 3), (0, 4, 4)]]
    case = Case(length=4, pack="fit", mask="prefix", parts=[part], files=[0], own=True)
    dataset = publish(shelf, case)
    equals_the_model(case, dataset)
    right = gather._prefixes
    with (
        patch.object(gather, "_prefixes", lambda labels, flat: np.maximum(right(labels, flat), 1)),
        pytest.raises(AssertionError),
    ):
        equals_the_model(case, dataset)
