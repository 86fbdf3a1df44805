"""How the product listens: an answer leaves at once, however many pieces it has."""

import asyncio
import socket

from config.serving import listen


def test_no_answer_of_the_product_waits_for_the_acknowledgement_of_its_first_piece():
    async def accept_one() -> int:
        options = asyncio.get_running_loop().create_future()

        def accepted(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            found = writer.get_extra_info("socket")
            options.set_result(found.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        async with await asyncio.start_server(accepted, sock=listen("127.0.0.1", 0)) as server:
            _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            writer.close()
            return await options

    assert asyncio.run(accept_one()) == 1
