"""Readers: the formats of source files. Each is a stateless class behind the door ``interfaces.Reader``: ``jsonl``,
``text`` and ``csv`` (plain, ``.gz`` or ``.zst``; records are lines, borders of parts are chosen by content), and
``parquet`` and ``arrow`` (row groups and record batches; pyarrow, which is optional, is imported on use). All input is
untrusted: what does not parse is a ``BuildError`` that names file and line, row or byte. The registry has the table of names.
"""
