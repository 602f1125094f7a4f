"""Readers: the formats of source files, each a stateless class behind the door ``interfaces.Reader``.

``jsonl``, ``text`` and ``csv`` (plain, ``.gz`` or ``.zst``) have records that end at line ends and parts whose borders
their content chooses; ``parquet`` and ``arrow`` are cut at row groups and record batches, through pyarrow, which is
optional and imported on use. All input is untrusted: what does not parse is a ``BuildError`` that names the file and
the line, row or byte. The table of names is in the registry.
"""
