"""``tribit`` and ``python -m tribit``; Ctrl-C during the imports ends with one sentence too."""

import sys


def main() -> None:
    """Run the command line."""
    try:
        from tribit.cli import main as run  # noqa: PLC0415
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted: no file was changed.\n")
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
