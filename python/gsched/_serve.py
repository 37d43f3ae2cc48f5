# SPDX-License-Identifier: Apache-2.0
"""A process that serves models to other processes."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Mapping
from typing import Any, Unpack

from ._abi import BAD_ARGUMENT, GschedError
from ._options import ServerOptions
from ._server import Server


def serve(models: Mapping[str, tuple[Any, Any]], socket: str | os.PathLike[str], *,
          policy: str = "boost", gpu: int = 0, drain: float = 30.0,
          ready: Callable[[Server], object] | None = None, **options: Unpack[ServerOptions]) -> None:
    """Serve models to processes of this machine until SIGTERM or SIGINT.

    Captures each module, listens, and waits. At the signal it takes no more requests, serves those that
    it has for `drain` seconds, and returns. On another thread than the main one no signal is handled,
    and it serves until the server is closed, which `ready` gets.

    Parameters
    ----------
    models : mapping
        By the name that clients use: a module or callable and an example of its inputs.
    socket : str or os.PathLike
        A path, or ``@`` and a name without a file: the argument of `Client`.
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
        If there is no model, one cannot be captured, the socket is in use, or the GPU fails.
    """
    if not models:
        raise GschedError("models: none, expected at least one", BAD_ARGUMENT)
    main = threading.current_thread() is threading.main_thread()
    asked = threading.Event()
    before = {s: signal.signal(s, lambda *_: asked.set()) for s in (signal.SIGTERM, signal.SIGINT)} if main else {}
    try:
        with Server(policy, gpu, **options) as server:
            added = {name: server.add_model(module, example) for name, (module, example) in models.items()}
            if not asked.is_set():
                channel = server.listen(socket)
                for name, model in added.items():
                    channel.offer(model, name)
                if ready is not None:
                    ready(server)
            while not asked.wait(0.2) and not server._state.closed:
                pass
            server.close(timeout=drain)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
