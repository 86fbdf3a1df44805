"""Choose the best of the trained models and measure it once on pictures that none of them has seen."""

import json
import pickle
import shutil

import numpy as np
from PIL import Image

import nearline

CELL = 24


def main() -> None:
    candidates = {}
    for file in sorted(nearline.input("train").glob("*/model.pkl")):
        with file.open("rb") as stored:
            candidates[file] = pickle.load(stored)
    chosen = max(candidates, key=lambda file: candidates[file]["validation_accuracy"])
    best = candidates[chosen]
    digits = np.load(nearline.input("prepare") / "digits.npz")
    guesses = best["model"].predict(digits["test_x"])
    accuracy = float((guesses == digits["test_y"]).mean())
    confusion = np.zeros((10, 10), dtype=int)
    np.add.at(confusion, (digits["test_y"], guesses), 1)

    out = nearline.output()
    shutil.copy(chosen, out / "model.pkl")
    (out / "confusion.json").write_text(json.dumps(confusion.tolist()))
    shade = (255 - 255 * confusion / confusion.sum(axis=1, keepdims=True)).astype(np.uint8)
    Image.fromarray(shade).resize((10 * CELL, 10 * CELL), Image.Resampling.NEAREST).save(out / "confusion.png")
    nearline.log_param("C", best["C"])
    nearline.log_metric("accuracy", accuracy)
    print(f"Of {len(candidates)} models the one with C={best['C']:g} is best: accuracy {accuracy:.4f}")


if __name__ == "__main__":
    main()
