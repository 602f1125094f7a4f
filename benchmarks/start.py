"""``dsbuild --help`` against ``python -c "import click"``: at most twice."""

from __future__ import annotations

import sys

from measure import claim, command, compare, dsbuild

if __name__ == "__main__":
    found = compare(
        {
            "python -c 'import click'": command(sys.executable, "-c", "import click"),
            "dsbuild --help": dsbuild("--help"),
        },
        rounds=15,
    )
    times = list(found.values())
    sys.exit(not claim("dsbuild --help / import click", times[1] / times[0], 2.0))
