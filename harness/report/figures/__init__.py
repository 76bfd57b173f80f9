"""The figures of a report, each a function from plain numbers to a `Figure`."""
