"""build: a graph becomes published parts and manifests.

``session`` puts a recipe in its world, ``plan`` says what is stale, ``run`` in what order and through which executor,
``work`` what one task does.
"""

from dsbuild.build.executors.inline import InlineExecutor
from dsbuild.build.executors.local import LocalExecutor
from dsbuild.build.plan import World, contents_of
from dsbuild.build.recheck import recheck
from dsbuild.build.run import BuildReport, NodeReport, Observer, build, failure
from dsbuild.build.session import Session, check_recipe, prepare, update_lock
from dsbuild.build.work import Work

__all__ = [
    "BuildReport",
    "InlineExecutor",
    "LocalExecutor",
    "NodeReport",
    "Observer",
    "Session",
    "Work",
    "World",
    "build",
    "check_recipe",
    "contents_of",
    "failure",
    "prepare",
    "recheck",
    "update_lock",
]
