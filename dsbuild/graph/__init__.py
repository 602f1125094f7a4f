"""graph: a recipe and its lock become derivations; a pure function of both."""

from dsbuild.graph.chain import check_handlers
from dsbuild.graph.derivation import Derivation, Graph, parse
from dsbuild.graph.instantiate import Instance, instantiate
from dsbuild.graph.mixing import ViewSize, mixture_of

__all__ = ["Derivation", "Graph", "Instance", "ViewSize", "check_handlers", "instantiate", "mixture_of", "parse"]
