"""What one person's request takes while another one sends many: with the turns that callers take, and without them.

The peer is the same product with turns switched off, which begins a thread for each request at once, as Django does.
"""

import asyncio
import http.client
import os
import subprocess
import sys
import time
from urllib.parse import urlsplit

from benchmarks.product import median, running, shell
from tests.journeys.product import ROOT, Product

BURST = int(os.environ.get("BENCH_REQUESTS", "1500"))
STEADY = 64
STEADY_S = 10
ALONE = 20
ASKED = "/api/v1/compute/jobs"
WITHOUT = {"NEARLINE_REQUESTS_AT_ONCE": "1000", "NEARLINE_REQUESTS_WAITING": "100000"}
_NEW_TOKEN = """
from accounts.permissions import Actor
from accounts.selectors import find_actor
from accounts.services import projects, tokens
user = projects.create_user(actor=Actor.system("benchmark"), username="other", password=None)
print(tokens.create_token(actor=find_actor(user.pk), name="bench", expires_at=None)[1])
"""


def main() -> None:
    """Print the table."""
    floods = {f"{BURST} at once": (BURST, 0), f"{STEADY} all the time": (STEADY, STEADY_S)}
    print(f"{'milliseconds':<34}{'alone':>8}{'first':>8}{'median':>8}{'ratio':>8}")
    for name, environment in {"turns": {}, "no turns": WITHOUT}.items():
        with running(**environment) as product:
            other = shell(product, _NEW_TOKEN)
            for flood, (connections, seconds) in floods.items():
                alone = median([_ask(product, other) for _ in range(ALONE)])
                beside = _ask_beside(product, other, connections, seconds)
                middle = median(beside)
                print(
                    f"{name + ', ' + flood:<34}{alone:8.0f}{beside[0]:8.0f}{middle:8.0f}{middle / alone:8.1f}",
                    flush=True,
                )


def _ask(product: Product, token: str) -> float:
    """Return in how many milliseconds a request on a new connection is answered."""
    began = time.perf_counter()
    connection = http.client.HTTPConnection("127.0.0.1", product.port, timeout=600)
    connection.request("GET", ASKED, headers={"Authorization": f"Bearer {token}"})
    answer = connection.getresponse()
    answer.read()
    connection.close()
    if answer.status != http.HTTPStatus.OK:
        raise SystemExit(f"The other person was answered {answer.status}, so nothing was measured.")
    return 1000 * (time.perf_counter() - began)


def _ask_beside(product: Product, token: str, connections: int, seconds: int) -> list[float]:
    """Return what requests took, one after the other, while a process floods the product with the admin's."""
    command = [sys.executable, "-m", "benchmarks.turns", product.url, str(connections), str(seconds)]
    environment = {**product.environment, "TOKEN": product.token}
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as flood:
        if flood.stdout is None or flood.stdout.readline() != "sent\n":
            raise SystemExit("The flood did not begin, so nothing was measured.")
        beside = [_ask(product, token)]
        while flood.poll() is None:
            beside.append(_ask(product, token))
    return beside


async def _flood(url: str, token: str, connections: int, seconds: int) -> None:
    """Send a request on each connection at once; with `seconds` the next one after each answer, for so long."""
    host, port = str(urlsplit(url).hostname), urlsplit(url).port
    request = f"GET {ASKED} HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer {token}\r\n\r\n".encode()
    streams = [await asyncio.open_connection(host, port) for _ in range(connections)]
    ends_at = time.monotonic() + seconds

    async def use(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            await reader.readexactly(int(head.split(b"content-length: ")[1].split(b"\r\n")[0]))
            if time.monotonic() > ends_at:
                return
            writer.write(request)

    for _, writer in streams:
        writer.write(request)
    print("sent", flush=True)
    await asyncio.gather(*(use(*stream) for stream in streams))


if __name__ == "__main__":
    asyncio.run(_flood(sys.argv[1], os.environ["TOKEN"], int(sys.argv[2]), int(sys.argv[3])))
