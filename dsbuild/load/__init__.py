"""load: a published dataset as batches of numpy arrays. Never builds, never writes."""

from dsbuild.load.dataset import Dataset
from dsbuild.load.gather import Batch
from dsbuild.load.loader import Loader
from dsbuild.load.opening import open_dataset
from dsbuild.load.shape import RangeError

__all__ = ["Batch", "Dataset", "Loader", "RangeError", "open_dataset"]
