"""Private memory of a dataset from 10^7 to 10^12 examples: flat. The manifests are synthetic, and published in a store.

No tokens are there: what is measured is all that stands between a hash and the places of a batch's windows, namely
opening, the mixture, the shuffle, and the search among the parts (one for 32 M tokens, at most a million parts).
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from measure import claim
from peers import private

LENGTH = 2048
SIZES = (10**7, 10**8, 10**9, 10**10, 10**11, 10**12)
PART = 1 << 25
MOST_PARTS = 10**6
STEPS = 300
BATCH = 1024

RECIPE = """
dsbuild = 1
name = "scale"
[tokenizer]
file = "bytes"
[source.web]
files = "web.txt"
handlers = [{ use = "tokenize" }]
[mixture.train]
weights = { web = 1 }
[examples]
length = 2048
"""


def synthetic(template: Path, top: str, root: Path, examples: int) -> None:
    """A store in which the recipe ``top`` of the store ``template`` has so many examples."""
    from dsbuild.digest import Digest
    from dsbuild.graph import parse
    from dsbuild.store import Manifest, Store

    old, new = Store.open(template), Store.open(root, create=True)
    waiting = [Digest.parse(top)]
    while waiting:
        digest = waiting.pop()
        data = old.derivation(digest)
        assert data is not None
        new.put_derivation(digest, data)
        waiting += parse(data).references()
        found = old.manifest(digest)
        if found is not None:
            tokens = examples * LENGTH + 1
            parts = min(max(tokens // PART, 1), MOST_PARTS)
            counts = np.diff(np.arange(parts + 1, dtype=np.int64) * (tokens // parts))
            counts[-1] += tokens - int(counts.sum())
            random = np.random.default_rng(1).integers(0, 256, (parts, 32), np.uint8)
            new.publish_manifest(
                Manifest(
                    derivation=digest,
                    schema=found.schema,
                    actions=random,
                    contents=random,
                    records=counts // 600 + 1,
                    elements={"input_ids": counts},
                    longest={"input_ids": counts},
                    part_segments=np.arange(parts + 1, dtype=np.int64),
                    segment_file=np.arange(parts, dtype=np.int64),
                    segment_first=np.zeros(parts, np.int64),
                )
            )


def child(store: str, top: str) -> None:
    """Open the store, look up batches all over it, and print what that took."""
    from dsbuild import open_dataset

    before = private.megabytes()
    started = time.perf_counter()
    data = open_dataset(top, store=store)
    opened = time.perf_counter() - started
    (source,) = data.sources
    last, times = data.steps(BATCH), []
    for step in np.linspace(0, last - 1, STEPS).astype(int).tolist():
        started = time.perf_counter()
        rows = data.rows(step, BATCH)
        starts, _ = source.windows(rows["example"])
        source.parts[np.searchsorted(source.starts, starts, "right") - 1]
        times.append(time.perf_counter() - started)
    after = private.megabytes()
    found = {"open_ms": opened * 1e3, "batch_ms": statistics.median(times) * 1e3, "private_mb": after}
    print(json.dumps({**found, "added_mb": after - before, "examples": len(data), "parts": len(source.parts)}))


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        (root / "web.txt").write_text("a few words to make a first store of\n" * 100)
        (root / "recipe.toml").write_text(RECIPE)
        script = Path(sys.executable).with_name("dsbuild")
        command = [str(script), "build", str(root / "recipe.toml"), "--store", str(root / "first"), "--json"]
        top = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["hash"]
        found = []
        for examples in SIZES:
            synthetic(root / "first", top, root / f"{examples}", examples)
            command = [sys.executable, __file__, str(root / f"{examples}"), top]
            said = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            assert said["examples"] == examples, said
            found.append(said)
            print(
                f"{examples:>17,} examples in {said['parts']:>9,} parts: open {said['open_ms']:7.1f} ms, places of "
                f"{BATCH} examples {said['batch_ms']:.2f} ms, private {said['private_mb']:.1f} MB"
            )
        sizes = [one["private_mb"] for one in found]
        held = claim("private memory at any size, MB", max(sizes), 100)
        # a source holds two numbers a part, which a million parts show
        held &= claim("growth of private memory, MB", max(sizes) - min(sizes), 20)
        return int(not held)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        child(sys.argv[1], sys.argv[2])
    else:
        sys.exit(main())
