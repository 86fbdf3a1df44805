"""A small picture folder of the shape of the sample: ten class folders of tiny files, each with its own bytes."""

from pathlib import Path


def write_digits(folder: Path, *, per_class: int = 20) -> int:
    """Write ten class folders and return how many files they hold."""
    for digit in range(10):
        (folder / str(digit)).mkdir(parents=True, exist_ok=True)
        for number in range(per_class):
            (folder / str(digit) / f"{number:04}.png").write_bytes(picture(digit, number))
    return 10 * per_class


def picture(digit: int, number: int) -> bytes:
    """Return bytes that no other picture has."""
    return b"\x89PNG\r\n\x1a\n" + f"digit {digit} number {number} ".encode() * 20


def contents(folder: Path) -> dict[str, bytes]:
    """Return every file below a folder by relative path, without our own bookkeeping."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and ".nearline" not in path.relative_to(folder).parts and path.name != ".nearlineignore"
    }
