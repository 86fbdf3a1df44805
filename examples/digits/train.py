"""Train one support vector classifier, measure it on pictures it did not see, and let it guess the test pictures."""

import argparse
import json
import pickle

import numpy as np
from sklearn.svm import SVC

import nearline


def main(penalty: float) -> None:
    digits = np.load(nearline.input("prepare") / "digits.npz")
    # One part in five of the training pictures chooses between the models; the test pictures stay unseen.
    learn = len(digits["train_x"]) * 4 // 5
    model = SVC(C=penalty, gamma="scale").fit(digits["train_x"][:learn], digits["train_y"][:learn])
    accuracy = model.score(digits["train_x"][learn:], digits["train_y"][learn:])
    nearline.log_metric("validation_accuracy", accuracy)
    out = nearline.output()
    (out / "model.pkl").write_bytes(pickle.dumps(model))
    (out / "summary.json").write_text(json.dumps({"C": penalty, "validation_accuracy": accuracy}))
    np.save(out / "guesses.npy", model.predict(digits["test_x"]))
    print(f"C={penalty:g}: {accuracy:.4f} of the validation pictures are right")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--C", type=float, required=True)
    main(parser.parse_args().C)
