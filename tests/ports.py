"""Ports of the loopback interface that are ours until this process ends, and so cannot be taken before their server starts.

A port that was found free and let go may be given to anybody. One that a socket is bound to is given to nobody by
itself, neither to a connection nor to who asks for any; a server that names it, and says SO_REUSEADDR as ours all do,
may listen there all the same, since nothing listens yet.
"""

import atexit
import socket


def reserve_port() -> int:
    """Return a port that only who names it can use."""
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("127.0.0.1", 0))
    atexit.register(holder.close)
    return holder.getsockname()[1]
