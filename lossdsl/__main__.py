"""`python -m lossdsl` is the command `lossdsl`."""

from lossdsl.cli import main

if __name__ == "__main__":
    main()
