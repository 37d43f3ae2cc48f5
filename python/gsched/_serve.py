# SPDX-License-Identifier: Apache-2.0
"""A process that serves models to other processes."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Unpack

from ._abi import BAD_ARGUMENT, GschedError
from ._options import ServerOptions
from ._server import Server

if TYPE_CHECKING:
    from ._channel import Channel
    from ._grpc import GrpcEndpoint


def serve(models: Mapping[str, tuple[Any, Any]], socket: str | os.PathLike[str] | None = None, *,
          grpc: str | None = None, policy: str = "boost", gpu: int = 0, drain: float = 30.0,
          ready: Callable[[Server], object] | None = None, **options: Unpack[ServerOptions]) -> None:
    """Serve models to other processes until SIGTERM or SIGINT.

    Captures each module, listens on a channel, over gRPC or on both, and waits. At the signal it takes no more requests, serves those that
    it has for `drain` seconds, and returns. On another thread than the main one no signal is handled,
    and it serves until the server is closed, which `ready` gets.

    Parameters
    ----------
    models : mapping
        By the name that clients use: a module or callable and an example of its inputs.
    socket : str or os.PathLike, optional
        A path, or ``@`` and a name without a file: the argument of `Client`, of processes of this
        machine.
    grpc : str, optional
        ``unix:PATH`` or ``HOST:PORT``, for clients of the Open Inference Protocol; see
        `Server.listen_grpc`.
    policy : str
        See `Server`.
    gpu : int
        See `Server`.
    drain : float
        Seconds.
    ready : callable, optional
        Called with the server once clients can connect.
    **options : ServerOptions
        See `Server`.

    Raises
    ------
    GschedError
        If there is no model, neither a socket nor an address, one of them is in use, a module cannot be
        captured, or the GPU fails.
    """
    if not models:
        raise GschedError("models: none, expected at least one", BAD_ARGUMENT)
    if socket is None and grpc is None:
        raise GschedError("socket: none, as is grpc, expected one of them", BAD_ARGUMENT)
    main = threading.current_thread() is threading.main_thread()
    asked = threading.Event()
    before = {s: signal.signal(s, lambda *_: asked.set()) for s in (signal.SIGTERM, signal.SIGINT)} if main else {}
    try:
        with Server(policy, gpu, **options) as server:
            added = {name: server.add_model(module, example) for name, (module, example) in models.items()}
            if not asked.is_set():
                where: list[Channel | GrpcEndpoint] = []
                if socket is not None:
                    where.append(server.listen(socket))
                if grpc is not None:
                    where.append(server.listen_grpc(grpc))
                for each in where:
                    for name, model in added.items():
                        each.offer(model, name)
                if ready is not None:
                    ready(server)
            while not asked.wait(0.2) and not server._state.closed:
                pass
            server.close(timeout=drain)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
