"""How the findings of `harness.overhead` are shown: claims, tables, figures, a page."""
