"""Read every picture of the dataset once and part what the models learn from, from what they never see."""

import numpy as np
from PIL import Image

import nearline

SEED = 20


def main() -> None:
    files = sorted(nearline.data("digits").glob("*/*.png"))
    pictures = np.stack([np.asarray(Image.open(file), dtype=np.float32).ravel() / 255 for file in files])
    labels = np.array([int(file.parent.name) for file in files])
    order = np.random.default_rng(SEED).permutation(len(files))
    kept_back = round(len(files) * nearline.parameters()["test_share"])
    test, train = order[:kept_back], order[kept_back:]
    np.savez(
        nearline.output() / "digits.npz",
        train_x=pictures[train],
        train_y=labels[train],
        test_x=pictures[test],
        test_y=labels[test],
    )
    nearline.log_metric("pictures", len(files))
    print(f"{len(train)} pictures to learn from, {len(test)} kept back")


if __name__ == "__main__":
    main()
