"""``python -m treering`` is the command line."""

from treering.cli.main import run

if __name__ == "__main__":
    run()
