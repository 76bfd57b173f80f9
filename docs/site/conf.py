"""The documentation site: `make docs` builds it into build/docs, with warnings as errors.

The sources are the repository's own documents, where they are: README.md is the first page, the
notebook is a page, and links lead where they lead in the repository.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

ROOT = Path(__file__).parents[2]

project = "pacebench"
root_doc = "README"
include_patterns = ["*.md", "docs/*.md", "docs/design/*.md", "docs/*.ipynb"]
# Not looked into: there is much in them, and nothing of ours.
exclude_patterns = [".*", "build", "results", "tests", "**/__pycache__"]
source_suffix = {".md": "markdown", ".ipynb": "markdown"}
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]

myst_heading_anchors = 4
# Docstrings write code as Markdown does.
default_role = "code"
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
add_module_names = False

PAGES = """
```{toctree}
:hidden:
:caption: Using it
docs/tutorial
docs/notebook
docs/running
docs/report
docs/your-numbers
docs/tuning
docs/overhead
```
```{toctree}
:hidden:
:caption: What is in it
docs/curricula
docs/environments
docs/learners
docs/statistics
docs/findings
docs/api
```
```{toctree}
:hidden:
:caption: The project
docs/architecture
docs/performance
docs/design/sac-many-seeds
CONTRIBUTING
CHANGELOG
```
"""

html_theme = "furo"
html_title = "pacebench"
html_copy_source = False


def _source(app: Sphinx, name: str, content: list[str]) -> None:
    """Makes Markdown of the notebook, and links to a report's page where there is one."""
    text, folder = content[0], (ROOT / name).parent
    if text.startswith("{"):
        text = _markdown(json.loads(text))
    for link in set(re.findall(r"\]\(([^)#\s]+/)report\.md\)", text)):
        if (folder / link / "index.html").is_file():
            text = text.replace(f"]({link}report.md)", f"]({link}index.html)")
    content[0] = text + PAGES if name == root_doc else text


def _markdown(notebook: dict[str, Any]) -> str:
    """Returns a notebook's texts, its code, and what the code printed."""
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        for output in cell["outputs"]:
            text = output["text"] if "text" in output else output["data"]["text/plain"]
            parts.append(f"```text\n{''.join(text)}\n```")
    return "\n\n".join(parts) + "\n"


def _docstring(app: Sphinx, kind: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """An indented block after an empty line is code, as in Markdown."""
    for i in range(len(lines) - 1, 1, -1):
        before = lines[i - 2]
        indented = lines[i].startswith("    ") and not before.startswith(" ")
        if indented and before and not lines[i - 1]:
            lines.insert(i - 1, "\n::\n")


def _open_instead(app: Sphinx, page: str, template: str, context: dict[str, Any], _: Any) -> None:
    """A report, a study or a table that a page links to is opened, not saved."""
    context["body"] = context.get("body", "").replace(' download=""', "")


def _first_page(app: Sphinx, error: Exception | None) -> None:
    """Where a browser looks first."""
    page = '<!doctype html><meta http-equiv="refresh" content="0; url=README.html">\n'
    (Path(app.outdir) / "index.html").write_text(page, encoding="utf-8")


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("source-read", _source)
    # Before napoleon, which is at 500.
    app.connect("autodoc-process-docstring", _docstring, priority=400)
    app.connect("html-page-context", _open_instead)
    app.connect("build-finished", _first_page)
