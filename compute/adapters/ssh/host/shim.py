"""The shim of a job on a host: that of the local driver, which in addition sends the output before it tells the end.

`output.json` says what became of it: `root`, or `error`. So whoever reads that a job has ended knows where its output
is, and a job runs until its output is in the store.
"""

import json
import select
from pathlib import Path

from compute.adapters.local import shim
from compute.adapters.local.folders import write_json

ATTEMPT, OUTPUT = "attempt.json", "output.json"


class SendingShim(shim.Shim):
    """One job from its start to its stored output."""

    def _write_end(self, cause: str, exit_code: int | None, cpu_s: float) -> None:
        folder = Path(self.folder)
        attempt = folder / ATTEMPT
        if exit_code is not None and attempt.exists():
            write_json(str(folder / OUTPUT), self._send_output(folder, json.loads(attempt.read_bytes())))
        attempt.unlink(missing_ok=True)
        super()._write_end(cause, exit_code, cpu_s)

    def _send_output(self, folder: Path, attempt: dict[str, str]) -> dict[str, str]:
        # As long as the command runs, its shim holds no more than that of the local driver.
        from compute.adapters.ssh.host.attempt_calls import AttemptCalls  # noqa: PLC0415
        from core.errors import PlatformError  # noqa: PLC0415

        try:
            return {"root": AttemptCalls(**attempt).store_output(folder / "output", self._is_told_to_stop)}
        except (OSError, PlatformError) as error:
            return {"error": str(error)}

    def _is_told_to_stop(self) -> bool:
        # What a stopped job leaves is sent once, and a platform that does not answer is not waited for.
        return self.cause == "stopped" or bool(select.select([self.control], [], [], 0)[0])


def main() -> None:
    """Fork a shim for each message, as the local driver's does."""
    shim.main(SendingShim)
