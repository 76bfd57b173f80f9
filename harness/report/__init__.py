"""Reports: claims first, every number with its interval, every limit spelled out."""
