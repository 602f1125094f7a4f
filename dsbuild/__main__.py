"""``python -m dsbuild``."""

from dsbuild.cli import main

if __name__ == "__main__":
    main()
