"""The studies that are shipped: `pacebench run quick` finds studies/quick.yaml here."""
