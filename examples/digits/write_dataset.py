"""Write the 1,797 handwritten digits that scikit-learn ships as PNG files, in one folder per class."""

import sys
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits


def main(target: Path) -> None:
    digits = load_digits()
    pixels = (255 - digits.images * 15.9375).astype(np.uint8)
    for number, (picture, label) in enumerate(zip(pixels, digits.target, strict=True)):
        folder = target / str(label)
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(picture).save(folder / f"{number:04}.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
