"""Peak memory of the workers while a JSON Lines file of 2 GiB is built: at most 600 MB each.

Usage: memory.py [GIBIBYTES]. The recipe keeps few records, so that the time goes into reading, and tokenizes bytes.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
from measure import claim

RECIPE = """
dsbuild = 1
name = "memory"
[tokenizer]
file = "bytes"
[source.web]
files = "big.jsonl"
handlers = [{ use = "tokenize" }]
[mixture.train]
weights = { web = 1 }
[examples]
length = 2048
"""

if __name__ == "__main__":
    wanted = float(sys.argv[1]) if len(sys.argv) > 1 else 2.0
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        with (root / "big.jsonl").open("w") as out:
            n = written = 0
            while written < wanted * (1 << 30):
                block = "".join(
                    json.dumps(
                        {
                            "id": n + k,
                            "text": f"document {n + k} " + f"lorem {n * k % 9973} ipsum " * (20 + (n + k) % 60),
                        }
                    )
                    + "\n"
                    for k in range(5000)
                )
                n += 5000
                written += out.write(block)
        (root / "recipe.toml").write_text(RECIPE)
        script = str(Path(sys.executable).with_name("dsbuild"))
        started = time.perf_counter()
        process = psutil.Popen([script, "build", str(root / "recipe.toml"), "--store", str(root / "store")])
        worker = driver = 0
        while process.poll() is None:
            try:
                driver = max(driver, process.memory_full_info().uss)
                worker = max([worker, *(c.memory_full_info().uss for c in process.children())])
            except psutil.Error:
                pass
            time.sleep(0.1)
        assert process.returncode == 0
        taken = time.perf_counter() - started
        print(
            f"{written / 1e6:.0f} MB in {taken:.1f} s ({written / 1e6 / taken:.0f} MB/s); driver {driver / 1e6:.0f} MB"
        )
        subprocess.run([script, "verify", "--store", str(root / "store")], check=True)
        sys.exit(not claim("peak private memory of a worker, MB", worker / 1e6, 600))
