"""load: a published dataset as batches of numpy arrays. Never builds, never writes."""

from dsbuild.load.dataset import Batch, Dataset, RangeError, open_dataset
from dsbuild.load.loader import Loader

__all__ = ["Batch", "Dataset", "Loader", "RangeError", "open_dataset"]
