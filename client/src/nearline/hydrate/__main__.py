"""`python -m nearline.hydrate`: the program in `nearline.cli.hydrate`, under the name by which pods call it."""

import sys

from nearline.cli.hydrate import main

if __name__ == "__main__":
    sys.exit(main())
