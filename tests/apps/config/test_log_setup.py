"""Where the log of `manage.py up` goes."""

import subprocess
import sys

SCRIPT = """
import logging, sys, structlog
from pathlib import Path
from config import log_setup
from django.db import OperationalError

class Refusal(Exception):
    sqlstate = None

log_setup.configure({"level": "INFO"})
log_setup.move_to_file(Path(sys.argv[1]), sys.stderr)
log_setup.configure({"level": "INFO"})  # as the ASGI application does, which sets Django up once more
log = structlog.get_logger("test")
log.debug("too.little")
logging.getLogger("django.request").error("Service Unavailable: %s", "/y", extra={"status_code": 503})
for path in ("/store/sealed-grant", "/sign-in/link-of-somebody/"):
    logging.getLogger("django.request").error("Service Unavailable: %s", path, extra={"status_code": 503})
print("then", file=sys.stderr)
log.info("job.started", job=1)
try:
    raise ValueError("secret reason")
except ValueError:
    log.exception("request.failed", path="/x 100%")
logging.getLogger("django.request").error("Internal Server Error: %s", "/x")
logging.getLogger("library").warning("careful")
try:
    try:
        raise Refusal("why it is away")
    except Refusal as cause:
        raise OperationalError("connection refused") from cause
except OperationalError:
    logging.getLogger("django.request").error("Outage: %s", "/z", exc_info=True, extra={"status_code": 503})
"""


def test_errors_are_one_sentence_in_the_terminal_and_whole_in_the_file(tmp_path):
    path = tmp_path / "nearline.log"

    done = subprocess.run([sys.executable, "-c", SCRIPT, path], capture_output=True, text=True, check=True)

    assert done.stdout == ""
    assert done.stderr == f"then\nInternal error. The log says what: {path}\n"
    written = path.read_text()
    for part in ("INFO    job.started", "job=1", "ERROR   request.failed", "path='/x 100%'", "secret reason"):
        assert part in written
    assert "Traceback" in written
    assert "ERROR   Internal Server Error: /x" in written
    assert "ERROR   Service Unavailable: /y" in written
    for line in ("Service Unavailable: /store/...\n", "Service Unavailable: /sign-in/...\n"):
        assert line in written
    assert "WARNING careful" in written
    assert "too.little" not in written
    assert "/z" not in written
    assert "database.unavailable" in written
