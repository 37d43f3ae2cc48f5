# SPDX-License-Identifier: Apache-2.0
"""PyTorch models served by gsched: captured once, then scheduled segment by segment.

    import gsched, torch, torchvision

    model = torchvision.models.resnet18().cuda()
    with gsched.Server() as server:
        resnet = server.add_model(model, torch.randn(1, 3, 224, 224))
        future = server.submit(resnet, torch.randn(1, 3, 224, 224))
        print(future.result().argmax(), future.latency)

The package wraps libgsched_c by ctypes. It imports torch when the first model is captured. `Client` sends
requests to a server in another process; it wraps libgsched_client, and needs neither torch nor a GPU.

Errors
------
`GschedError`, with one line. An exception of a model's forward during its capture is passed on, and the
server continues. A child made by ``fork()`` cannot use its parent's servers, but opens its own.

Units
-----
Seconds, everywhere. Points in time are seconds of `time.monotonic`. A field of ``gsched_c.h`` whose
name ends in ``_us``, ``_ms`` or ``_ns`` has the name without that here.

Threads
-------
Everything may be called from any thread, and from signal handlers and finalizers. One model is
captured at a time, and one is added to a server at a time; a signal handler that starts another one
meanwhile gets an error. Every call that waits can be interrupted, by Ctrl-C for example.
The dispatcher of a server is a thread of the library and runs no Python. The first callback starts a
Python thread, see `Future`.
"""

from ._abi import GschedError, load_library
from ._capture import Captured, capture
from ._channel import Channel
from ._client import Client, ClientModel
from ._client_future import ClientFuture
from ._context import leave_slow_side
from ._future import Future
from ._grpc import GrpcEndpoint
from ._model import Model
from ._nesting import tensors_of, with_tensors
from ._options import PlanOptions, ServerOptions
from ._plan import PlanModel, PlannedModel, PlanServer
from ._serve import serve
from ._server import Server
from ._slow_downs import load_slow_downs, predict_slow_downs

__version__ = "0.1.0"
__all__ = ["Captured", "Channel", "Client", "ClientFuture", "ClientModel", "Future", "GrpcEndpoint",
           "GschedError", "Model", "PlanModel", "PlanOptions", "PlanServer", "PlannedModel", "Server",
           "ServerOptions", "capture", "leave_slow_side", "load_library", "load_slow_downs",
           "predict_slow_downs", "serve", "tensors_of", "with_tensors"]
