"""Makes the small data that the recipes here read: short texts of our own, the same on every run."""

from __future__ import annotations

import json
from pathlib import Path

PLACES = ("harbour", "library", "orchard", "workshop", "station", "lighthouse", "market", "mill")
PEOPLE = ("Ada", "Bo", "Chen", "Dara", "Edu", "Fatou", "Goran", "Hana", "Iris", "Jun")
THINGS = ("clock", "ledger of tides", "red kettle", "map", "loom", "lens", "bell", "box of seeds")
ACTS = ("mended", "painted", "measured", "traded", "hid", "found", "described", "weighed")
TIMES = ("before dawn", "at noon", "in the rain", "after the feast", "on the longest day", "by lamplight")


def story(n: int) -> str:
    """The ``n``-th story: some sentences, their number and words given by arithmetic on ``n``."""
    lines = []
    for k in range(2 + n % 5):
        i = n * 7 + k * 13
        lines.append(
            f"{TIMES[i % 6].capitalize()}, {PEOPLE[(n + k * 3) % 10]} {ACTS[(i + n) % 8]} the "
            f"{THINGS[(i // 3 + n) % 8]} at the {PLACES[(i // 5) % 8]}."
        )
    return " ".join(lines)


def question(n: int) -> tuple[str, str]:
    """The ``n``-th sum, asked and answered in words."""
    a, b = 3 + n % 17, 2 + (n * 5) % 23
    who, what = PEOPLE[n % 10], THINGS[n % 8]
    asked = f"{who} has {a} drawings of the {what} and makes {b} more. How many are there?"
    return asked, f"{a} + {b} = {a + b}. There are {a + b} drawings."


def main(directory: Path) -> None:
    """Write ``stories-0.jsonl`` to ``stories-2.jsonl``, ``questions.jsonl`` and ``notes.txt`` into ``directory``."""
    directory.mkdir(exist_ok=True)
    for part in range(3):
        rows = [{"id": n, "title": f"Story {n}", "text": story(n)} for n in range(part * 60, part * 60 + 60)]
        write(directory / f"stories-{part}.jsonl", rows)
    write(directory / "questions.jsonl", [{"question": q, "answer": a} for q, a in map(question, range(120))])
    notes = [f"Note {n}. {story(n * 11 + 5)}" for n in range(40)]
    (directory / "notes.txt").write_text("\n".join(notes) + "\n", "utf-8", newline="\n")


def write(path: Path, rows: list[dict[str, object]]) -> None:
    """JSON Lines, one row a line."""
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    path.write_text(text, "utf-8", newline="\n")


if __name__ == "__main__":
    main(Path(__file__).parent / "data")
