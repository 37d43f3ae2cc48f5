# SPDX-License-Identifier: Apache-2.0
"""Clients in other processes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from . import _abi
from ._abi import (BAD_ARGUMENT, GschedError, check, gsched_channel_options, name_in_c, number_in_c,
                   path_in_c, pointer)

if TYPE_CHECKING:
    from types import TracebackType

    from ._model import Model
    from ._state import State


class Channel:
    """A socket on which processes of this machine submit to a server, made by `Server.listen`.

    As a context manager it closes at the end of its block. It closes with its server, too.

    Attributes
    ----------
    socket : str
        Its path, or ``@`` and a name: the argument of `Client`.
    """

    socket: str

    def __init__(self, state: State, socket: str | os.PathLike[str], options: dict[str, object]) -> None:
        path = path_in_c("socket", socket)
        said, handle = gsched_channel_options(), pointer()
        check(_abi.library.gsched_default_channel_options(said))
        kinds = {name: kind for name, kind in said._fields_}
        for name, value in options.items():
            if value is not None:
                setattr(said, name, number_in_c(name, value, kinds[name]))
        state.refuse_child()
        check(_abi.library.gsched_channel_open(state.handle, path, said, handle))
        self.socket, self._state, self._handle = os.fsdecode(path), state, handle.value
        state.channels.append(self)

    def __enter__(self) -> Channel:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        self.close()

    def offer(self, model: Model, name: str | None = None) -> None:
        """Let clients ask for a model of the server.

        Parameters
        ----------
        model : Model
            The model; its inputs and outputs lie in a client's payload without gaps.
        name : str, optional
            What clients call it; None is its own name.

        Raises
        ------
        GschedError
            If it is another server's, or the name or the model was offered before.
        """
        if model._state is not self._state:
            raise GschedError(f"{model.name}: another server's model, expected one of this one's",
                              BAD_ARGUMENT)
        check(_abi.library.gsched_channel_offer(self._open(), model.index,
                                                None if name is None else name_in_c("offer", name)))

    def withdraw(self, model: Model) -> None:
        """Refuse further requests for a model, as before `Model.remove`.

        Parameters
        ----------
        model : Model
            One that was offered.

        Raises
        ------
        GschedError
            If it was not offered.
        """
        check(_abi.library.gsched_channel_withdraw(self._open(), model.index))

    def close(self) -> None:
        """End the connections.

        What clients have in flight ends as cancelled; they are told nothing but that the server has
        gone.

        Raises
        ------
        GschedError
            If a call of the server's thread, such as a callback, closes it.
        """
        handle, self._handle = self._handle, None
        if handle is not None and self._state.is_here():
            check(_abi.library.gsched_channel_close(handle))

    def _open(self) -> int:
        self._state.refuse_child()
        if self._handle is None:
            raise GschedError("the channel is closed", _abi.CLOSED)
        return self._handle
