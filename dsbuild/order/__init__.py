"""Order: which example stands where, as pure arithmetic on integers; nothing here reads data or keeps state.

Layers, each a module: ``pack`` (tokens -> examples) and ``fit`` (whole records -> examples), ``deal`` (parts and
readers of ``interleave``), ``view`` (how many examples these give), ``permute`` (the keyed bijection), ``block`` and
``era`` on ``family`` (shuffles that stay local), ``shuffle`` (which of them), ``weights`` and ``mix`` on ``slots``
(mixtures), ``partition`` (steps and ranks), ``split`` (records by key), ``group`` (small files). Each algorithm that
decides an order has a ``VERSION``, which belongs in the derivations that use it.
"""
