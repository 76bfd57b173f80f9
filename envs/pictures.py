"""Pictures of episodes: stills, animations and contact sheets, to see what a context means."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.random import SeedSequence
from numpy.typing import ArrayLike

from pacebench.envs.arrays import Floats, Picture
from pacebench.envs.base import BatchEnv
from pacebench.envs.checks import check_context
from pacebench.envs.errors import SetupError
from pacebench.envs.registry import make_batch, setup
from pacebench.envs.rollout import draw_contexts
from pacebench.envs.setup import Setup
from pacebench.envs.streams import stream

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageDraw import ImageDraw

_INK, _FAINT, _PAPER = (33, 37, 46), (110, 116, 128), (255, 255, 255)
_FRAME = (212, 216, 224)
_GOOD, _BAD = (30, 130, 80), (190, 50, 44)
_MAX_FRAMES = 400


@dataclass(frozen=True)
class Film:
    """One episode in pictures.

    Attributes:
        setup: The task.
        context: Its raw context (d,).
        frames: Evenly spaced pictures, the last one of the end; without `moving`, what the still
            needs.
        fps: Frames per second of simulated time.
        still: The episode in one picture.
        success: Whether it succeeded.
        total: Its undiscounted return.
        length: Its steps.
    """

    setup: Setup
    context: Floats
    frames: list[Picture]
    fps: float
    still: Picture
    success: bool
    total: float
    length: int


def film(
    name: str | Setup,
    context: ArrayLike,
    policy: str | Callable[[Floats], Floats] = "reference",
    seed: int = 0,
    *,
    moving: bool = True,
) -> Film:
    """Plays one episode and draws it.

    Args:
        name: A setup or its name.
        context: The context (d,).
        policy: `random`, `hold` or `reference`, or a function from observations (1, obs_dim) to
            actions (1, act_dim).
        seed: Seed of the episode and of the random policy.
        moving: Whether to draw all frames, or only those that the still needs.
    """
    spec = setup(name)
    given = check_context(context, spec)
    episode_seed, policy_seed = SeedSequence(seed).spawn(2)
    batch = make_batch(spec, 1, [episode_seed], render_mode="rgb_array")
    rng = stream(policy_seed)
    every = -(-spec.horizon // _MAX_FRAMES)
    obs = batch.reset(given[None])
    all_frames = moving or batch.strobe
    frames = [batch.render()] if all_frames else []
    total, length, over, success = 0.0, 0, False, False
    while not over:
        actions = policy(obs) if callable(policy) else batch.actions(policy, rng)
        obs, reward, terminated, truncated, info = batch.step(actions)
        total, length = total + float(reward[0]), length + 1
        over, success = bool(terminated[0] or truncated[0]), bool(info["success"][0])
        if over or (all_frames and length % every == 0):
            frames.append(batch.render())
    still = _still(batch, frames)
    batch.close()
    return Film(spec, given, frames, batch.render_fps / every, still, success, total, length)


def save(picture: Film, path: Path) -> None:
    """Writes a film: `.gif` as an animation, `.png` as a captioned still."""
    suffix = path.suffix.lower()
    if suffix not in (".png", ".gif"):
        raise SetupError(f"cannot write {path.name!r}: the name must end in .png or .gif.")
    path.parent.mkdir(parents=True, exist_ok=True)
    if suffix == ".png":
        _captioned(picture, picture.still).save(path)
        return
    images = [_captioned(picture, frame).quantize(128) for frame in picture.frames]
    # The end is held for a second, so that one sees how the episode went before it repeats.
    durations = [max(20, round(1000 / picture.fps))] * (len(images) - 1) + [1000]
    images[0].save(path, save_all=True, append_images=images[1:], duration=durations, loop=0)


def contact_sheet(
    name: str | Setup, policy: str = "reference", seed: int = 0, columns: int = 5
) -> Image:
    """Draws rows of initial and target contexts: random draws, after the mean of a Gaussian."""
    from PIL import Image, ImageDraw

    spec = setup(name)
    seeds = SeedSequence(seed).spawn(2)
    rows = []
    for which, child in zip(("initial", "target"), seeds, strict=True):
        drawn = draw_contexts(spec, columns, child, which)
        # Elsewhere the mean may be a context that never occurs.
        if getattr(spec, which) is None:
            drawn = np.vstack([getattr(spec, f"{which}_mean"), drawn[:-1]])
        films = [film(spec, c, policy, seed + i, moving=False) for i, c in enumerate(drawn)]
        rows.append((which, [_captioned(f, f.still, width=300) for f in films]))
    tile_width, tile_height = rows[0][1][0].size
    gap, band = 16, 56
    width = gap + columns * (tile_width + gap)
    sheet = Image.new("RGB", (width, 40 + 2 * (band + tile_height) + gap), _PAPER)
    pen = ImageDraw.Draw(sheet)
    _text(pen, (gap, 14), spec.name, 26)
    note = f"{policy} policy; random draws, after the mean where the distribution is Gaussian"
    _text(pen, (width - gap, 22), note, 15, _FAINT, anchor="ra")
    top = 40
    for which, tiles in rows:
        _text(pen, (gap, top + 18), f"{which} contexts", 20, _FAINT)
        for i, tile in enumerate(tiles):
            sheet.paste(tile, (gap + i * (tile_width + gap), top + band))
        top += band + tile_height
    return sheet


def _still(batch: BatchEnv, frames: list[Picture]) -> Picture:
    if not batch.strobe:
        return frames[-1]
    # A multiple exposure on a dark sky: the lightest of all exposures is what one sees.
    chosen = frames[:: max(1, len(frames) // 8)] + frames[-1:]
    lightest: Picture = np.maximum.reduce(chosen)
    return lightest


def _captioned(picture: Film, frame: Picture, width: int | None = None) -> Image:
    from PIL import Image, ImageDraw

    drawn = Image.fromarray(frame)
    if width is not None:
        height = round(drawn.height * width / drawn.width)
        drawn = drawn.resize((width, height), Image.Resampling.LANCZOS)
    size = max(13, round(drawn.width / 24))
    line = round(1.45 * size)
    lines = _context_lines(picture)
    image = Image.new("RGB", (drawn.width, drawn.height + line * (len(lines) + 1) + 8), _PAPER)
    image.paste(drawn, (0, 0))
    pen = ImageDraw.Draw(image)
    pen.rectangle([0, 0, drawn.width - 1, drawn.height - 1], outline=_FRAME)
    top = drawn.height + 6
    for text in lines:
        _text(pen, (4, top), text, size)
        top += line
    colour = _GOOD if picture.success else _BAD
    outcome = "success" if picture.success else "no success"
    ending = f"{outcome}, return {picture.total:.1f}, {picture.length} steps"
    _text(pen, (4, top), ending.replace("-", "−"), size, colour)
    return image


def _context_lines(picture: Film) -> list[str]:
    spec = picture.setup
    lines = []
    bounds = zip(spec.context_names, picture.context, spec.lower, spec.upper, strict=True)
    for name, value, low, high in bounds:
        used = min(max(value, low), high)
        clipped = f" → {used:.2f}" if used != value else ""
        lines.append(f"{name} {value:.2f}{clipped}".replace("-", "−"))
    return lines


def _text(
    pen: ImageDraw,
    at: tuple[float, float],
    text: str,
    size: int,
    colour: tuple[int, int, int] = _INK,
    anchor: str = "la",
) -> None:
    from matplotlib import get_data_path
    from PIL import ImageFont

    # Matplotlib brings a font along; what a machine has installed differs from the next one's.
    font = ImageFont.truetype(Path(get_data_path()) / "fonts/ttf/DejaVuSans.ttf", size)
    pen.text(at, text, fill=colour, font=font, anchor=anchor)
