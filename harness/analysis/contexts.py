"""Results with their context vectors as columns, as one wants them in a notebook."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd

from pacebench.envs import Setup
from pacebench.harness.store.load import Results
from pacebench.harness.store.manifest import study_of
from pacebench.harness.study.specs import Cell
from pacebench.harness.training.evaluation import evaluation_digest, held_out_contexts


def with_contexts(results: Results) -> Results:
    """Returns results whose vectors are columns too, named after the context's dimensions.

    `evaluations` gets `context_<name>`, the held-out context of each episode before it was clipped
    (NaN for episodes of the current distribution, whose contexts are not recorded); `updates` gets
    `mean_<name>` and `std_<name>`.
    """
    study = study_of(results.manifest)
    cells = {cell.setup: (digest, cell) for digest, cell in results.manifest.cells.items()}
    evaluations, updates = results.evaluations.copy(), results.updates.copy()
    for name, (digest, cell) in cells.items():
        try:
            setup = study.setup(name)
        except LookupError:
            continue  # Not installed here.
        for column in ("mean", "std") if len(updates) else ():
            here = (updates["setup"] == name).to_numpy()
            vectors = np.array(updates.loc[here, column].tolist()).reshape(-1, setup.dim)
            _set(updates, here, column, setup, vectors)
        if len(evaluations) and _same_contexts(results, digest, setup, cell):
            _add_contexts(evaluations, name, setup, cell)
    return replace(results, evaluations=evaluations, updates=updates)


def _same_contexts(results: Results, digest: str, setup: Setup, cell: Cell) -> bool:
    known = results.manifest.evaluation_hashes.get(digest)
    if known is None or known == evaluation_digest(setup, cell.evaluation):
        return True
    warnings.warn(
        f"the held-out contexts of '{setup.name}' are not those that this machine draws (another "
        "version of NumPy?), so that their values are not shown.",
        stacklevel=4,
    )
    return False


def _add_contexts(evaluations: pd.DataFrame, name: str, setup: Setup, cell: Cell) -> None:
    for distribution in ("target", "initial"):
        vectors = held_out_contexts(setup, cell.evaluation, distribution)
        here = (evaluations["setup"] == name) & (evaluations["distribution"] == distribution)
        rows = here.to_numpy()
        chosen = vectors[evaluations.loc[rows, "context"].to_numpy(dtype=np.int64)]
        _set(evaluations, rows, "context", setup, chosen)


def _set(
    frame: pd.DataFrame,
    rows: np.ndarray[tuple[int, ...], np.dtype[np.bool_]],
    prefix: str,
    setup: Setup,
    vectors: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
) -> None:
    for j, dimension in enumerate(setup.context_names):
        column = f"{prefix}_{dimension}"
        if column not in frame:
            frame[column] = np.nan
        frame.loc[rows, column] = vectors[:, j]
