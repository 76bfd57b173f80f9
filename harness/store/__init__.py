"""What running a study leaves behind: atomic, checksummed, content-addressed."""
