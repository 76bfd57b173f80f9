"""Numbers that were not made here, and ours for programs that were not: readers and writers."""
