"""`python -m pacebench.harness` is `pacebench`."""

from pacebench.harness.cli import main

if __name__ == "__main__":
    main()
