"""Train one classifier, measure it on pictures it did not see, and let it guess the test pictures.

A least-squares support vector machine with a Gaussian kernel, one against all (Suykens and Vandewalle, 1999): where
the usual machine solves an optimisation, this one solves a linear system, which numpy does at once.
"""

import argparse
import json

import numpy as np

import nearline

CLASSES = 10


def main(penalty: float) -> None:
    digits = np.load(nearline.input("prepare") / "digits.npz")
    # One part in five of the training pictures chooses between the models; the test pictures stay unseen.
    learn = len(digits["train_x"]) * 4 // 5
    pictures, labels = digits["train_x"][:learn], digits["train_y"][:learn]
    width = 1 / (pictures.shape[1] * pictures.var())
    targets = np.where(labels[:, None] == np.arange(CLASSES), 1.0, -1.0)
    weights = np.linalg.solve(kernel(pictures, pictures, width) + np.eye(learn) / penalty, targets)

    def guess(unseen: np.ndarray) -> np.ndarray:
        return (kernel(unseen, pictures, width) @ weights).argmax(axis=1)

    accuracy = float((guess(digits["train_x"][learn:]) == digits["train_y"][learn:]).mean())
    nearline.log_metric("validation_accuracy", accuracy)
    out = nearline.output()
    np.savez(out / "model.npz", pictures=pictures, weights=weights, width=width)
    (out / "summary.json").write_text(json.dumps({"C": penalty, "validation_accuracy": accuracy}))
    np.save(out / "guesses.npy", guess(digits["test_x"]))
    print(f"C={penalty:g}: {accuracy:.4f} of the validation pictures are right")


def kernel(some: np.ndarray, others: np.ndarray, width: float) -> np.ndarray:
    """How alike two pictures are, from 0 to 1, for each of some against each of others."""
    distances = (some**2).sum(1)[:, None] - 2 * some @ others.T + (others**2).sum(1)
    return np.exp(-width * distances)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--C", type=float, required=True)
    main(parser.parse_args().C)
