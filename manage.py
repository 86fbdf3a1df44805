"""Run a command of the product: `python manage.py up`, `migrate`, ..."""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent
# First on the path, so that an installed package called `datasets` can never be taken for ours.
sys.path[:0] = [str(ROOT), str(ROOT / "platform")]

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)
