"""Runs a study: nothing lost, nothing run twice, from one laptop to a cluster."""
