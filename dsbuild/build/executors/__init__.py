"""executors: where tasks run. None of them can change bytes, so none has an identity."""
