"""What a curriculum costs: timed replays, shares of training time, score per second.

    harness.overhead.measure.measure("results/overhead")   # what `pacebench overhead` measures

Here is the measurement and its analysis; how findings are shown is in `harness.report.overhead`.
"""
