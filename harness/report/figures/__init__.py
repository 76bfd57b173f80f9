"""Figures drawn as light SVG: rows over one axis, and small panels side by side."""
