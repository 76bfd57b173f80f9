"""`pacebench run` and `status`: a study while it runs."""

from __future__ import annotations

import contextlib
import math
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from typer import Option

from pacebench.harness.cli.output import console, say_json
from pacebench.harness.cli.selectors import (
    RESULTS,
    Chosen,
    Json,
    Only,
    ResultsFolder,
    Seeds,
    StudyFile,
    StudyOrResults,
    Values,
)
from pacebench.harness.errors import UserError

if TYPE_CHECKING:
    from pacebench.harness.runner.attempt import Limits

# What the command line calls the fields of `Limits`.
_OPTIONS = {
    "seconds": "--time-limit",
    "memory": "--memory-limit",
    "heartbeat": "--heartbeat",
    "expiry": "--expiry",
}


def run(
    study: StudyFile,
    executor: str = Option("local", help="Where batches run: local, ray or slurm."),
    workers: int | None = Option(None, min=1, help="Batches at a time (default: all cores)."),
    address: str | None = Option(
        None, help="An existing Ray cluster, such as ray-head:6379 or auto."
    ),
    slurm: list[str] | None = Option(
        None, help="A parameter for submitit, such as slurm_partition=cpu; repeatable."
    ),
    time_limit: float | None = Option(None, min=1, help="Seconds of training that a run may take."),
    memory_limit: float | None = Option(
        None, min=0.1, help="GiB of memory that a worker may take."
    ),
    heartbeat: float | None = Option(
        None, help="Seconds between two signs of life of a worker.", show_default="2"
    ),
    expiry: float | None = Option(
        None,
        help="Seconds without a sign of life after which others take over its runs.",
        show_default="60",
    ),
    results: ResultsFolder = RESULTS,
    share: bool = Option(True, help="Take over runs that another study in the folder has."),
    until_decided: bool = Option(
        True,
        "--until-decided/--one-wave",
        help="Of an adaptive study: add seeds until it is decided, or end after one wave.",
    ),
    retry_failed: bool = Option(
        False, "--retry-failed", help="Give runs that the machine failed three times a fresh start."
    ),
    retry_crashed: bool = Option(
        False,
        "--retry-crashed",
        help="Give runs that raised an exception a fresh start, though the code is the same.",
    ),
    values: Values = None,
    only: Only = None,
    seeds: Seeds = None,
) -> None:
    """Run a study, or go on with it; what is finished is never run again.

    Ctrl-C stops at the next checkpoint, a second Ctrl-C at once; the same command resumes.

    Example: [bold]pacebench run studies/quick.yaml[/bold]
    """
    import warnings

    from pacebench import harness
    from pacebench.harness.report.terminal import study_screen
    from pacebench.harness.runner.display import choose, duration
    from pacebench.harness.runner.launch import RunOptions

    err = console(stderr=True)
    warnings.formatwarning = lambda message, *_, **__: f"warning: {message}\n"
    chosen = Chosen(study, values, only, seeds)
    loaded = chosen.load()
    options = RunOptions(
        executor=executor,
        workers=workers,
        address=address,
        limits=_limits(seconds=time_limit, memory=memory_limit, heartbeat=heartbeat, expiry=expiry),
        slurm=_parameters(slurm or []),
        share=share,
        retry_failed=retry_failed,
        retry_crashed=retry_crashed,
        display=choose(err),
    )
    summary = harness.run(loaded, results=results, options=options, until_decided=until_decided)
    counts = ", ".join(f"{count} {status}" for status, count in summary.statuses.items())
    said = f"{sum(summary.statuses.values())} of {summary.total} runs ended ({counts or 'none'})"
    _say(f"{said}, {summary.made} of them now, in {duration(summary.seconds)}.")
    if summary.interrupted and not summary.complete:
        _say(f"Resume with: pacebench run {chosen}{_again(results, executor)}")
        raise typer.Exit(130)
    if summary.unresolved:
        _say(
            f"{summary.unresolved} failed for want of infrastructure; see their logs in "
            f"{summary.root / 'runs'}, then try --retry-failed."
        )
        raise typer.Exit(1)
    if summary.broken:
        for sentence in summary.broken:
            _say(f"{sentence}.")
        _say(
            f"That says nothing about the method, so there will be no verdict; see the logs in "
            f"{summary.root / 'runs'}, correct the code and run the same command again."
        )
        raise typer.Exit(1)
    with contextlib.suppress(OSError):
        for line in study_screen(loaded, summary.root):
            console().print(line)
    _say(f"Results: {summary.root}")


def _say(text: str) -> None:
    # The terminal may be closed by now, and the exit code is to be right all the same.
    with contextlib.suppress(OSError):
        typer.echo(text)


def _limits(**given: float | None) -> Limits:
    """Returns the limits, of which memory is given in GiB."""
    from pydantic import ValidationError

    from pacebench.harness.runner.attempt import Limits

    said = {name: value for name, value in given.items() if value is not None}
    for name, value in said.items():
        if not math.isfinite(value):
            raise UserError(f"{_OPTIONS[name]} {value}: is no number; leave it out for no limit.")
    if "memory" in said:
        said["memory"] = int(said["memory"]) * 2**30 + int(said["memory"] % 1 * 2**30)
    try:
        return Limits.model_validate(said)
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0])
        raise UserError(f"{_OPTIONS[name]} {given[name]:g}: {first['msg']}.") from None


def _parameters(pairs: list[str]) -> dict[str, str | int]:
    found: dict[str, str | int] = {}
    for pair in pairs:
        key, separator, value = pair.partition("=")
        if not separator or not key:
            raise UserError(f"--slurm {pair}: write KEY=VALUE, such as slurm_partition=cpu.")
        found[key] = int(value) if value.isdigit() else value
    return found


def _again(results: Path, executor: str) -> str:
    folder = "" if results == RESULTS else f" --results {results}"
    return folder + ("" if executor == "local" else f" --executor {executor}")


def status(
    study: StudyOrResults,
    results: ResultsFolder = RESULTS,
    json_: Json = False,
    values: Values = None,
    only: Only = None,
    seeds: Seeds = None,
) -> None:
    """Show how far a study is, from its results alone; works while others run it.

    Example: [bold]pacebench status studies/quick.yaml[/bold]
    """
    from pacebench.harness.runner.display import line, table
    from pacebench.harness.runner.snapshot import look
    from pacebench.harness.store.manifest import study_of
    from pacebench.harness.store.store import RunStore
    from pacebench.harness.study.fingerprint import other_code

    chosen = Chosen(study, values, only, seeds)
    root = chosen.results(results)
    store = RunStore(root)
    manifest = store.manifest()
    if manifest is None:
        raise UserError(f"{root}: no results here; start with `pacebench run {chosen}`.")
    snapshot, bad = look(store, manifest)
    if json_:
        cells = [cell.to_dict() for cell in snapshot.cells]
        state = {"study": snapshot.study, "complete": snapshot.complete, "cells": cells}
        say_json({**state, "whole": snapshot.whole.to_dict(), "bad": bad})
        return
    out = console()
    out.print(table(snapshot))
    out.print(f"{snapshot.study}: {line(snapshot)}.", markup=False)
    declared = study_of(manifest)
    if declared.seeds.adaptive and snapshot.whole.done:
        from pacebench.harness.analysis.waves import open_questions, scored_table

        for item in open_questions(scored_table(declared, root)):
            most = declared.seeds.most(item.question.scope)
            out.print(f"{item.progress(most)}.", markup=False)
    for change in other_code(manifest.current_cells()):
        out.print(f"Made by other code than is installed: {change}.", markup=False)
    for run_id, reason in bad.items():
        out.print(f"run {run_id} will be set aside and made again: {reason}.", markup=False)
