"""Prints the set-up commands of a README: the lines of its fenced blocks that are marked ``sh setup``."""

import re
import sys
from pathlib import Path

for block in re.findall(r"```sh setup\n(.*?)```", Path(sys.argv[1]).read_text("utf-8"), re.DOTALL):
    for line in block.strip().splitlines():
        print(line)
