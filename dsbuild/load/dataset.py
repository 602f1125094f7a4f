"""Dataset: the ordered examples that a hash names. A view: no copy, no state; any step by arithmetic."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from dsbuild.digest import Digest
from dsbuild.load.gather import Batch, gather
from dsbuild.load.loader import Loader
from dsbuild.load.lookup import look_up
from dsbuild.load.part import Ints
from dsbuild.load.pieces import by_part
from dsbuild.load.shape import RangeError, Shape, token_dtype
from dsbuild.load.source import Source
from dsbuild.load.steps import schedule_of, share, whole
from dsbuild.load.stretch import Stretch
from dsbuild.order.mix import Mixture
from dsbuild.order.partition import Schedule
from dsbuild.order.permute import key
from dsbuild.order.shuffle import Order, order_of
from dsbuild.store import Store

if TYPE_CHECKING:
    from dsbuild.load.find import Occurrence
    from dsbuild.load.jax import JaxBatches
    from dsbuild.load.torch import TorchBatches
    from dsbuild.load.trace import Traced

ORDERS_KEPT = 2048
"""Orders remembered by (source, epoch): each is a few words and tables of at most 32 KiB."""

SPREAD = 16
"""Ranges of positions that lie in a span of at most so many times their number are looked up with what is between."""

_MASKED = frozenset(("labels", "segment_ids", "position_ids", "cu_seqlens", "prefix_mask"))


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class Dataset:
    """The examples of one mixture of a recipe, in the order that the recipe's hash fixes.

    ``len(dataset)`` examples; ``batch(step, size)`` is examples [step * size, (step + 1) * size). Threads may share
    it; it can be pickled and survives a fork.
    """

    digest: Digest
    split: str
    store: Store
    shape: Shape
    sources: tuple[Source, ...]
    mixture: Mixture
    shuffle: Any
    seed: int
    orders: dict[tuple[int, int], Order] = field(default_factory=dict, repr=False)

    def __repr__(self) -> str:
        return f"<Dataset {self.digest.short} {self.split}: {len(self):,} examples of {self.shape.length} tokens>"

    def __len__(self) -> int:
        assert self.mixture.length is not None
        return self.mixture.length

    def __reduce__(self) -> tuple[Any, ...]:
        from dsbuild.load.opening import open_dataset

        return _reopened, (open_dataset, self.digest.hex, self.split, str(self.store.root))

    def __iter__(self) -> Iterator[Batch]:
        return (self.example(i) for i in range(len(self)))

    def __enter__(self) -> Dataset:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the parts that are open; a batch opens them again."""
        for source in self.sources:
            source.close()

    def steps(self, size: int | Schedule) -> int:
        """Whole batches of ``size`` examples; a last partial batch is dropped. Raises ``RangeError`` below 1."""
        return schedule_of(size).steps(len(self))

    def example(self, index: int) -> Batch:
        """Example ``index`` of the stream, 0 <= index < len: a dict of arrays [L]."""
        index = whole(index, "example")
        if index >= len(self):
            raise RangeError(f"example {index}: the dataset has {len(self)}", kind="out-of-range")
        return {name: array[0] for name, array in self.examples(index, index + 1).items()}

    def examples(self, start: int, stop: int, *, dtype: Any = np.int32, columns: Sequence[str] | None = None) -> Batch:
        """Examples [start, stop) of the stream: a dict of arrays [stop - start, L], as ``batch`` says."""
        start, stop = whole(start, "start"), whole(stop, "stop")
        if not start <= stop <= len(self):
            raise RangeError(f"examples {start} to {stop}: the dataset has {len(self)}", kind="out-of-range")
        chosen = self.shape.chosen(columns)
        return gather(self.stretch([(start, stop)], chosen), 0, stop - start, self.dtype(dtype), chosen)

    def batch(
        self,
        step: int,
        size: int | Schedule,
        rank: int = 0,
        world: int = 1,
        *,
        dtype: Any = np.int32,
        columns: Sequence[str] | None = None,
        uneven: bool = False,
    ) -> Batch:
        """Rank ``rank``'s rows of step ``step``: a dict of arrays [size / world, L].

        ``input_ids`` of ``dtype``; ``labels`` int32 (int64 where ``dtype`` has 64 bits), shifted by one, -100 where
        there is no loss. With a document mask, int32 ``segment_ids`` (1, 2, … in a row, 0 = padding) and
        ``position_ids``, and where ``columns`` asks for it ``cu_seqlens`` (int32 [documents + 1]: the borders of
        documents and paddings in the flattened rows); with a prefix mask, uint8 ``prefix_mask``. Raises ``RangeError``
        past the end, and where ``world`` does not divide ``size`` unless ``uneven`` lets ranks' shares differ by one.
        """
        start, stop = self.share(step, size, rank, world, uneven=uneven)
        return self.examples(start, stop, dtype=dtype, columns=columns)

    def rows(
        self, step: int, size: int | Schedule, rank: int = 0, world: int = 1, *, uneven: bool = False
    ) -> dict[str, Ints]:
        """What the rows of a batch are, without reading them: int64 arrays ``position``, ``source`` (number in
        ``sources``, which have a ``name``), ``epoch`` and ``example`` (of the source), each [size / world]."""
        start, stop = self.share(step, size, rank, world, uneven=uneven)
        sources, epochs, examples = self.locate([(start, stop)])
        return {"position": np.arange(start, stop), "source": sources, "epoch": epochs, "example": examples}

    def trace(
        self, step: int, size: int | Schedule, rank: int = 0, world: int = 1, *, uneven: bool = False
    ) -> list[Traced]:
        """What the rows of a batch were made of, one ``Traced`` an example: its source, and for each of its pieces the
        file, record number and token span. Reads no tokens. Raises ``RangeError`` as ``batch``."""
        from dsbuild.load.trace import trace

        return trace(self, step, size, rank, world, uneven=uneven)

    def find(
        self,
        source: str,
        record: int,
        file: str | int | None = None,
        *,
        size: int | Schedule | None = None,
        limit: int = 1000,
    ) -> list[Occurrence]:
        """Every place of the stream with tokens of record ``record`` (its number in the file, from 0) of ``source`` (a
        name, or a view's first digits), at most ``limit``, by position; with ``size`` also their steps and rows.

        ``file``: a name, a content id's first digits or a number in the source's list; None where it has one file.
        Raises ``NotFoundError`` for what there is not, kind ``not-in-stream`` for a record that no example has, saying
        why: filtered, skipped, dropped, of another split, or past the stream's end.
        """
        from dsbuild.load.find import find

        return find(self, source, record, file, size=size, limit=limit)

    def loader(self, size: int | Schedule, rank: int = 0, world: int = 1, **options: Any) -> Loader:
        """An iterator over batches: ``start``, ``prefetch``, ``threads``, ``reuse`` and more, see ``Loader``."""
        return Loader(self, size, rank, world, **options)

    def torch(self, size: int | Schedule, **options: Any) -> TorchBatches:
        """A PyTorch ``IterableDataset`` of whole batches; see ``dsbuild.load.torch``."""
        from dsbuild.load.torch import TorchBatches

        return TorchBatches(self, size, **options)

    def jax(self, size: int | Schedule, sharding: Any, **options: Any) -> JaxBatches:
        """An iterator over batches as global ``jax.Array``s under ``sharding``; see ``dsbuild.load.jax``."""
        from dsbuild.load.jax import JaxBatches

        return JaxBatches(self, size, sharding, **options)

    def share(
        self, step: int, size: int | Schedule, rank: int = 0, world: int = 1, *, uneven: bool = False
    ) -> tuple[int, int]:
        """[start, stop) of the stream that is ``rank``'s of step ``step``. Raises ``RangeError``."""
        schedule = schedule_of(size)
        step, last = whole(step, "step"), schedule.steps(len(self))
        if step >= last:
            raise RangeError(
                f"step {step}: the dataset has {last} whole batches",
                kind="out-of-range",
                hint="'until = { epochs = N }' in the mixture makes it longer",
            )
        return share(schedule.first(step), schedule.size(step), rank, world, uneven=uneven)

    def locate(self, ranges: Sequence[tuple[int, int]]) -> tuple[Ints, Ints, Ints]:
        """(source number, epoch, example of the source) of the positions of ``ranges``, int64 each."""
        sources, ordinals = self._taken(ranges)
        epochs, examples = np.empty(len(sources), np.int64), np.empty(len(sources), np.int64)
        for source, places in by_part(sources):
            epoch, at = np.divmod(ordinals[places], self.sources[source].length)
            epochs[places] = epoch
            shuffled = self.shuffle != "none" and self.sources[source].length > 1
            for number in np.unique(epoch).tolist() if shuffled else ():
                now = epoch == number
                at[now] = self.order(source, number)(at[now])
            examples[places] = at
        return sources, epochs, examples

    def stretch(self, ranges: Sequence[tuple[int, int]], columns: Sequence[str]) -> Stretch:
        """The positions of ``ranges``, one after the other, looked up as far as ``columns`` need it."""
        documents = self.shape.documents and not _MASKED.isdisjoint(columns)
        return look_up(self.shape, self.sources, *self.locate(ranges), documents=documents)

    def order(self, source: int, epoch: int) -> Order:
        """The order of the examples of a source in an epoch."""
        found = self.orders.get((source, epoch))
        if found is None:
            view = self.sources[source]
            found = order_of(self.shuffle, key(self.seed, view.digest, epoch), view.length)
            # without a lock, which a fork could find held: each step is atomic, and an order too many does no harm
            for oldest in list(self.orders)[: max(len(self.orders) - ORDERS_KEPT + 1, 0)]:
                self.orders.pop(oldest, None)
            self.orders[source, epoch] = found
        return found

    def dtype(self, wanted: Any) -> np.dtype[Any]:
        """``wanted`` as a dtype that holds every token id. Raises ``RangeError``."""
        fields = [s.records.schema for s in self.sources if "input_ids" in s.records.schema]
        pad = [np.min_scalar_type(self.shape.pad)] if self.shape.pad else []
        return token_dtype(wanted, [np.dtype(f["input_ids"].dtype) for f in fields] + pad)

    def _taken(self, ranges: Sequence[tuple[int, int]]) -> tuple[Ints, Ints]:
        """(source, how many of its examples came before) of positions; near ranges are looked up at once."""
        low, high = ranges[0][0], ranges[-1][1]
        asked = sum(stop - start for start, stop in ranges)
        if len(ranges) > 1 and high - low <= SPREAD * asked:
            sources, ordinals = self.mixture.locate(low, high)
            chosen = np.concatenate([np.arange(start - low, stop - low) for start, stop in ranges])
            return sources[chosen], ordinals[chosen]
        found = [self.mixture.locate(start, stop) for start, stop in ranges]
        return np.concatenate([s for s, _ in found]), np.concatenate([k for _, k in found])


def _reopened(opener: Any, target: str, split: str, root: str) -> Dataset:
    found: Dataset = opener(target, split=split, store=root)
    return found
