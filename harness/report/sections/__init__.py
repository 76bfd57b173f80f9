"""The sections of a report, each a function from the view to a `Section`."""
