"""`python -m harness` is `pacebench`."""

from harness.cli import main

if __name__ == "__main__":
    main()
