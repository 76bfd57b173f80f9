"""The `pacebench` command line.

Each command is one module, and imports what is heavy inside its function, so that `--help` answers
at once.
"""

from __future__ import annotations

from pacebench.harness.cli.app import app, main

__all__ = ["app", "main"]
