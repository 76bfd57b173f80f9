"""Pictures: every setup can be drawn, and what is drawn shows the context."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from pacebench import envs
from pacebench.envs.pictures import contact_sheet, film
from pacebench.harness.cli import app


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, [*arguments])
    return result.exit_code, result.output


def drawn(name: str, context: tuple[float, ...], steps: int = 15) -> np.ndarray:
    env = envs.make(name, render_mode="rgb_array")
    try:
        env.reset(seed=1, options={"context": context})
        for _ in range(steps):
            _, _, terminated, truncated, _ = env.step(env.batch.actions("reference")[0])
            if terminated or truncated:
                break
        picture = env.render()
    except envs.SetupError as error:
        if "OpenGL" not in str(error):
            raise
        pytest.skip(f"no OpenGL here: {error}")
    finally:
        env.close()
    assert picture is not None
    return picture


def test_every_setup_can_be_drawn_and_contexts_can_be_told_apart(name: str) -> None:
    setup = envs.setup(name)
    one, other = drawn(name, setup.initial_mean), drawn(name, setup.target_mean)
    for picture in (one, other):
        assert picture.dtype == np.uint8
        assert picture.ndim == 3
        assert picture.shape[2] == 3
        assert min(picture.shape[:2]) >= 300
        assert picture.std() > 5
    assert (one != other).any(axis=2).mean() > 1e-3


def test_drawing_does_not_change_the_physics(name: str) -> None:
    drawn(name, envs.setup(name).target_mean, steps=1)
    context = {"context": envs.setup(name).target_mean}
    plain, shown = envs.make(name), envs.make(name, render_mode="rgb_array")
    plain.reset(seed=3, options=context)
    shown.reset(seed=3, options=context)
    for _ in range(4):
        action = plain.batch.actions("reference")[0]
        expected = plain.step(action)[0]
        shown.render()
        assert np.array_equal(shown.step(action)[0], expected)
    shown.close()


def test_without_a_render_mode_there_is_no_picture(name: str) -> None:
    env = envs.make(name)
    env.reset(seed=0)
    assert env.render() is None
    with pytest.raises(envs.SetupError, match="render_mode='rgb_array'"):
        env.batch.render()


def test_where_there_is_no_opengl_one_sentence_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import mujoco
    import mujoco.egl

    from pacebench.envs.ball_catching import render

    def broken(*_: object) -> None:
        raise RuntimeError("no device")

    monkeypatch.setattr(mujoco.egl, "GLContext", broken)
    monkeypatch.setattr(mujoco, "GLContext", broken, raising=False)
    monkeypatch.setattr(render, "_opened", threading.local())
    env = envs.make("ball-catching", render_mode="rgb_array")
    env.reset(seed=0)
    with pytest.raises(envs.SetupError, match=r"OpenGL does not start .*MUJOCO_GL") as caught:
        env.render()
    assert "\n" not in str(caught.value)


def test_point_mass_shows_wall_gate_goal_and_path() -> None:
    picture = drawn("point-mass-2", (2.0, 1.0, 0.5), steps=100).astype(int)
    size, scale = len(picture), len(picture) / 8.6

    def pixel(x: float, y: float) -> list[int]:
        return picture[round((4.3 - y) * scale), round((x + 4.3) * scale)].tolist()

    wall = [60, 66, 78]
    assert pixel(-1.0, 0.0) == wall
    assert pixel(3.5, 0.0) == wall
    assert pixel(2.3, 0.0) != wall, "the gate is open"
    assert pixel(0.0, -3.0) == [20, 58, 140], "the mass rests at the goal"
    red, green, _ = pixel(0.14, -3.14)
    assert green > red + 20, "the goal is green"
    blue = (picture[..., 2] > picture[..., 0] + 60).sum()
    assert blue > size, "the path is drawn"


def test_film_reports_how_the_episode_went() -> None:
    shown = film("point-mass-2", (2.5, 0.7, 0.1), "reference", seed=1)
    assert shown.success
    assert shown.length == 100
    assert len(shown.frames) == 101
    assert 80 < shown.total < 100
    crash = film("point-mass-2", (2.5, 0.7, 0.1), "random", seed=1)
    assert not crash.success
    assert crash.length < 100


def test_render_writes_pictures_animations_and_sheets(tmp_path: Path) -> None:
    still, moving, sheet = (tmp_path / n for n in ("sub/a.png", "b.gif", "sheet.png"))
    arguments = ("render", "point-mass-2", "--context", "-1.5,0.9,0.2")
    assert run(*arguments, "--out", str(still)) == (0, f"wrote {still}\n")
    assert run(*arguments, "--policy", "random", "--out", str(moving))[0] == 0
    assert run("render", "point-mass-2", "--sheet", "--out", str(sheet))[0] == 0
    with Image.open(still) as image:
        assert image.format == "PNG"
    with Image.open(moving) as image:
        assert image.format == "GIF"
        assert image.n_frames > 3
    with Image.open(sheet) as image:
        assert image.width > 5 * 300


def test_landers_are_shown_as_a_multiple_exposure() -> None:
    shown = film("lunar-lander", envs.setup("lunar-lander").initial_mean, seed=0)
    lander = [128, 102, 230]
    in_still = (shown.still == lander).all(axis=2).sum()
    in_last = (shown.frames[-1] == lander).all(axis=2).sum()
    assert in_still > 3 * in_last


def test_sheets_are_reproducible() -> None:
    first, again = (contact_sheet("point-mass-1", seed=4, columns=2) for _ in range(2))
    assert first.tobytes() == again.tobytes()
    assert first.tobytes() != contact_sheet("point-mass-1", seed=5, columns=2).tobytes()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("point-mass-9", "--out", "a.png"), "did you mean 'point-mass-"),
        (("point-mass-1", "--out", "a.jpg"), "must end in .png or .gif"),
        (("point-mass-1", "--sheet", "--out", "a.gif"), "must end in .png"),
        (("point-mass-1", "--context", "1,x,2", "--out", "a.png"), "numbers separated by commas"),
        (("point-mass-1", "--context", "1,2", "--out", "a.png"), "has 3 numbers"),
        (("point-mass-1", "--context", "1,2,nan", "--out", "a.png"), "not finite"),
        (("point-mass-1", "--context", "1,2,3", "--sheet", "--out", "a.png"), "--context out"),
    ],
)
def test_mistakes_get_one_sentence(
    arguments: tuple[str, ...], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, output = run("render", *arguments)
    assert code == 2
    assert sentence in output
    assert "Traceback" not in output
    assert not list(tmp_path.iterdir())
