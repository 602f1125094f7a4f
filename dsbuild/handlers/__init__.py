"""handlers: records become records, one block at a time; they see columns and never files or the store.

Names are in ``dsbuild.registry``. A handler's version rises only when its output changes; ``tests/golden/handlers`` has
what each version makes.
"""
