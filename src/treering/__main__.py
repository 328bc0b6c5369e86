"""``python -m treering`` is the command line."""

import signal

if __name__ == "__main__":
    # Until commands are loaded, an interrupt ends the process as the system does it; a traceback
    # of our imports would say nothing.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from treering.cli.main import run

    run()
