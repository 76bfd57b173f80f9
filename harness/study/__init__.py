"""Study files: what is asked, of what, and how it will be judged."""
