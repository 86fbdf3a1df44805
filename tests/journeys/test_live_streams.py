"""Open pages do not keep the product from stopping."""

import subprocess
import urllib.request

from tests.journeys.product import BIN, ROOT, is_full

SIGN_IN = """
from django.conf import settings
from django.test import Client
from accounts.models import User
client = Client()
client.force_login(User.objects.first(), backend=settings.AUTHENTICATION_BACKENDS[0])
print(client.cookies["sessionid"].value)
"""


def test_the_server_stops_in_order_while_pages_listen(own_product):
    command = [BIN / "python", "manage.py", "shell", "-v", "0", "-c", SIGN_IN]
    done = subprocess.run(command, cwd=ROOT, env=own_product.environment, capture_output=True, text=True, check=True)
    cookie = done.stdout.strip().splitlines()[-1]
    url = f"http://127.0.0.1:{own_product.port}/live/?topic=jobs"  # of the process that is stopped
    asked = urllib.request.Request(url, headers={"Cookie": f"sessionid={cookie}"})
    name = "web" if is_full() else "up"
    server = own_product.processes.pop(name)

    with urllib.request.urlopen(asked, timeout=120) as stream:
        lines = iter(stream.readline, b"")
        assert b"event: changed\n" in lines
        server.terminate()
        list(lines)

    server.wait(120)
    assert "graceful shutdown exceeded" not in own_product.log_of(name)
