"""Says which GPU a pod was given: `python -m nearline.pod.devices`, which writes it to its termination message.

NVIDIA's device plugin names the device in NVIDIA_VISIBLE_DEVICES; where it mounts it instead, NVIDIA's management
library (NVML) knows it.
"""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_MESSAGE = Path(os.environ.get("NEARLINE_TERMINATION_MESSAGE", "/dev/termination-log"))
_MOST_MESSAGE = 4000


def main() -> int:
    """Tell the device and return the exit code."""
    try:
        devices = read_devices(os.environ) or _ask_nvml()
    except Exception as error:  # noqa: BLE001 (whatever the library does, the pod is to say it)
        _note(f"Its GPU cannot be identified: {error}")
        return 1
    if len(devices) != 1:
        _note(f"It asked for one GPU and sees {len(devices)}: {', '.join(devices) or 'none'}.")
        return 1
    _note(json.dumps({"device": devices[0]}))
    return 0


def read_devices(environment: Mapping[str, str]) -> Sequence[str]:
    """Return the devices that the variable names, by UUID or number; `all`, `void` and paths name none."""
    names = environment.get("NVIDIA_VISIBLE_DEVICES", "").split(",")
    return [name for name in names if name.startswith(("GPU-", "MIG-")) or name.isdecimal()]


def _ask_nvml() -> Sequence[str]:
    import pynvml  # noqa: PLC0415 (a large module)

    nvml: Any = pynvml
    nvml.nvmlInit()
    handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]
    return [str(nvml.nvmlDeviceGetUUID(handle)) for handle in handles]


def _note(message: str) -> None:
    _MESSAGE.write_text(message[:_MOST_MESSAGE])


if __name__ == "__main__":
    sys.exit(main())
