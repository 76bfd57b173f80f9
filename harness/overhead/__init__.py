"""What a curriculum costs: timed replays of one stream, shares of training time, score per second."""
