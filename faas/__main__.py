"""`python -m faas`, which is `faas`."""

import sys

if __name__ == "__main__":
    if not sys.flags.safe_path:
        del sys.path[0]  # the current folder: no module of the user's may stand in for one of ours
    from faas.cli.entry import main

    main()
