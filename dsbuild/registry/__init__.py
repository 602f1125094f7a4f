"""registry: names to plug-ins, by a literal table and by entry points, loaded on use; and the check of arguments."""

from dsbuild.registry.arguments import Problem, check_arguments
from dsbuild.registry.names import (
    PYTHON,
    UnknownPlugin,
    format_of,
    handler,
    handler_names,
    load_tokenizer,
    probe_tokenizer,
    reader,
    reader_for,
    reader_names,
)

__all__ = [
    "PYTHON",
    "Problem",
    "UnknownPlugin",
    "check_arguments",
    "format_of",
    "handler",
    "handler_names",
    "load_tokenizer",
    "probe_tokenizer",
    "reader",
    "reader_for",
    "reader_names",
]
