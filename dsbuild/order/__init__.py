"""Order: which example stands where, as pure arithmetic on integers; nothing here reads data or keeps state.

Layers, each a module: ``pack`` (tokens -> examples), ``deal`` (parts and readers of ``interleave``), ``permute`` (the
keyed bijection), ``weights`` and ``mix`` on ``slots`` (mixtures), ``partition`` (steps and ranks), ``split`` (records
by key), ``group`` (small files). Each algorithm that decides an order has a ``VERSION``, which belongs in the
derivations that use it.
"""
