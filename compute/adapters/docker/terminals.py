"""A command in a terminal in a container, as the port `Terminal` has it: the daemon hands its connection over."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from compute.adapters.docker.engine import Engine, Refusal
from compute.errors import ConnectionBroken, ResourceUnreachable

if TYPE_CHECKING:
    import httpx

_PIECE_BYTES = 1 << 16
_RESIZE_TRIES, _RESIZE_PAUSE_S = 40, 0.05


class ContainerTerminal:
    """A command that was made by `exec` with a terminal."""

    exit_code: int | None = None

    def __init__(
        self,
        engine: Engine,
        exec_id: str,
        client: "httpx.AsyncClient",
        answer: "httpx.Response",
        hang_up: Callable[[], None],
    ) -> None:
        """Take what carries its bytes, and what ends the command where the connection does not."""
        self._engine, self._exec_id = engine, exec_id
        self._client, self._answer = client, answer
        self._hang_up = hang_up
        self._stream: Any = answer.extensions["network_stream"]

    async def receive(self) -> bytes:
        """Return what the command prints next; at its end ask how it has ended."""
        import httpcore  # noqa: PLC0415 (comes with httpx)

        try:
            data: bytes = await self._stream.read(_PIECE_BYTES)
            if not data:
                facts = await asyncio.to_thread(self._engine.get, f"/exec/{self._exec_id}/json")
                self.exit_code = (facts or {}).get("ExitCode")
        except (httpcore.NetworkError, Refusal, ResourceUnreachable) as error:
            raise ConnectionBroken(f"Docker ended the connection: {error}") from error
        return data

    async def send(self, data: bytes) -> None:
        """Type something. What a command takes no more is dropped."""
        import httpcore  # noqa: PLC0415 (comes with httpx)

        try:
            await self._stream.write(data)
        except httpcore.NetworkError:
            return

    async def end_sending(self) -> None:
        """Do nothing: a terminal stays open in both directions."""

    async def resize(self, columns: int, rows: int) -> None:
        """Have the daemon tell the terminal. It refuses that until the command has begun."""
        for _ in range(_RESIZE_TRIES):
            try:
                await asyncio.to_thread(self._engine.post, f"/exec/{self._exec_id}/resize", w=str(columns), h=str(rows))
            except Refusal:
                await asyncio.sleep(_RESIZE_PAUSE_S)
            except ResourceUnreachable as error:
                raise ConnectionBroken(error.message) from error
            else:
                return

    async def close(self) -> None:
        """End the connection, and the command if it runs: the daemon would let it run on."""
        await self._answer.aclose()
        await self._client.aclose()
        if self.exit_code is None:
            await asyncio.to_thread(self._hang_up)
