"""The options that commands share: a study, some of its values changed, and its results."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pacebench.harness.cli.output import say
from pacebench.harness.errors import UserError

if TYPE_CHECKING:
    from pacebench.harness.study.models import Study

Values = Annotated[
    list[str] | None,
    typer.Option("--set", help="Change a value of the study: KEY=VALUE, such as budget=20000."),
]
Only = Annotated[
    str | None,
    typer.Option(help="Curricula (by label) and setups to keep, with commas between them."),
]
Seeds = Annotated[int | None, typer.Option(min=1, help="Make it a study of so many seeds.")]
StudyFile = Annotated[Path, typer.Argument(help="The study file, or the name of a shipped one.")]
StudyOrResults = Annotated[
    Path, typer.Argument(help="A study: its file, shipped name or results folder.")
]
ResultsFolder = Annotated[Path, typer.Option(help="Where results are kept.")]
RESULTS = Path("results")
Json = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]


@dataclass(frozen=True)
class Chosen:
    """A study as the command line names it."""

    study: Path  # a study file or the name of a shipped one; where results will do, those
    values: list[str] | None = None  # what `--set` was given
    only: str | None = None  # what `--only` was given
    seeds: int | None = None  # what `--seeds` was given

    def load(self) -> Study:
        """Returns the study.

        Raises:
            UserError: The file or a change of it has a mistake.
        """
        from pacebench.harness.study.load import load_study
        from pacebench.harness.study.overrides import Overrides

        names = tuple(name for part in (self.only or "").split(",") if (name := part.strip()))
        return load_study(self.study, Overrides(tuple(self.values or ()), names, self.seeds))

    def results(self, folder: Path) -> Path:
        """Returns the results of the study.

        What the study says otherwise than when it was run is said on standard error.

        Args:
            folder: Where results are kept.

        Raises:
            UserError: As `load`; or results were given, and changes of them; or the results under
                its name are another study's.
        """
        if not (self.study.is_dir() or self.study.suffix == ".zip"):
            from pacebench.harness.store.same_study import check_made_for
            from pacebench.harness.store.store import RunStore

            loaded = self.load()
            root = folder / loaded.name
            manifest = RunStore(root).manifest()
            for said in check_made_for(manifest, loaded, root) if manifest is not None else ():
                say(f"Since these results were made, {said}", err=True)
            return root
        if self.values or self.only or self.seeds:
            raise UserError(f"{self.study}: are results; --set, --only and --seeds take a study.")
        return self.study

    def __str__(self) -> str:
        """The study and its changes as they are typed."""
        words = [str(self.study), *(f"--set={value}" for value in self.values or ())]
        words += [f"--only={self.only}"] if self.only else []
        words += [f"--seeds={self.seeds}"] if self.seeds else []
        return shlex.join(words)
