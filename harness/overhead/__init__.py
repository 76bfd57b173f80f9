"""What a curriculum costs: timed replays, shares of training time, score per second.

    harness.overhead.measure("results/overhead")     # what `pacebench overhead` does
    harness.overhead.section("results/overhead")     # its findings as a section of a report

Names are imported when they are first used: a measuring process imports this package too.
"""
