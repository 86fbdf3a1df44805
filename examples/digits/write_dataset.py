"""Write the 1,797 handwritten digits that scikit-learn ships as PNG files, in one folder per class."""

import gzip
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from PIL import Image

SIDE = 8
BRIGHTEST = 16


def main(target: Path) -> None:
    spec = find_spec("sklearn")
    if spec is None or spec.origin is None:
        sys.exit("The pictures come with scikit-learn. Install it: pip install scikit-learn")
    # The file itself is read: importing scikit-learn would take longer than all that is done here.
    with gzip.open(Path(spec.origin).parent / "datasets" / "data" / "digits.csv.gz") as file:
        table = np.loadtxt(file, delimiter=",")
    for number, row in enumerate(table):
        folder = target / str(int(row[-1]))
        folder.mkdir(parents=True, exist_ok=True)
        pixels = 255 - row[:-1].reshape(SIDE, SIDE) * 255 / BRIGHTEST
        Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{number:04}.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
