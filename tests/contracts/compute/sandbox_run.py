"""Runs the probe of a hostile job with the local driver, as whoever runs this, and prints what the job printed.

python sandbox_run.py FOLDER [unconfined]
"""

import os
import shutil
import socket
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PROBE = Path(__file__).with_name("sandbox_probe.py")


def main() -> None:
    sys.path[:0] = [str(ROOT), str(ROOT / "platform")]
    from compute.adapters.local.driver import LocalDriver
    from compute.adapters.local.views import Views
    from compute.engine.job_spec import HostFolder, JobSpec, Mount
    from compute.engine.ports import Launch, ReportState

    if "--help" in sys.argv:
        return
    home = Path(sys.argv[1]) / "home"
    given, data = home / "jobs" / "parent" / "output", home / "sites" / "local" / "commit"
    code = home.with_name("code")
    for folder in (given, data, code, home / "jobs" / "other" / "output"):
        folder.mkdir(parents=True)
    # Beside the probe lies what tests leave, which not everybody may read.
    shutil.copy(PROBE, code)
    for path in ("secret.key", "db.sqlite3", "admin.token", "jobs/other/output/model"):
        (home / path).write_text("secret")
    (given / "model.txt").write_text("weights")
    (data / "0.png").write_text("zero")
    listener = socket.socket(socket.AF_UNIX)
    os.chdir(home)
    listener.bind("socket")
    listener.listen()
    spec = JobSpec(
        name="probe",
        command=[sys.executable, PROBE.name, str(home), str(os.getpid()), str(given)],
        data=[Mount("digits", HostFolder(str(data)))],
        inputs=[Mount("parent", HostFolder(str(given)))],
        code=Mount("code", HostFolder(str(code))),
    )
    launch = Launch(spec, "token", "job_1", "job", "demo", "node-1", 1000, 2**30)
    driver = LocalDriver(home / "jobs", None if "unconfined" in sys.argv else Views(hidden=[home]))
    driver.start(launch)
    while not (found := driver.list_jobs()) or found[0].state in {ReportState.STARTING, ReportState.RUNNING}:
        driver.wait_for_news(0.1)
    sys.stdout.write(driver.read_log("probe", 0, 1 << 20).data.decode())
    assert (given / "model.txt").read_text() == "weights" or "unconfined" in sys.argv
    assert (home / "jobs" / "probe" / "output" / "own.txt").read_text() == "mine"


if __name__ == "__main__":
    main()
