#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An LLM's decode loop as dependent requests: prefill and decode share one static cache.

Two functions of one Llama with random weights in bfloat16 are captured: prefill reads the prompt into
the cache and gives the first token, decode takes a token and its position, writes to the cache, and
gives the next ones. They write the same memory, so a server never runs both at once. Then --tokens
tokens are generated in three ways, which must agree: eagerly, by replaying the graphs, and by requests
that are submitted before their predecessors have run, follow these (after=) and read their outputs on
the GPU. The model is transformers' LlamaForCausalLM if that is installed, otherwise a small one in
plain PyTorch.
"""

import argparse
import faulthandler
import sys
import time

import checkout # the package of this checkout
import gsched
import workload

HEAD = 64  # numbers of each head


def options():
    p = workload.Parser(description=__doc__,
                        formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--layers", type=workload.COUNT, default=16, help="default: %(default)s")
    p.add_argument("--width", type=workload.COUNT, default=2048,
                   help=f"a multiple of {HEAD}; default: %(default)s")
    p.add_argument("--tokens", type=workload.COUNT, default=256, help="default: %(default)s")
    p.add_argument("--prompt", type=workload.COUNT, default=128, metavar="TOKENS",
                   help="default: %(default)s")
    p.add_argument("--vocabulary", type=workload.COUNT, default=32000, help="default: %(default)s")
    p.add_argument("--model", choices=("auto", "transformers", "plain"), default="auto",
                   help="auto: transformers if it is installed; default: %(default)s")
    p.add_argument("--policy", default="srpt+deficit", help="default: %(default)s")
    p.add_argument("--real-time", action="store_true", help="decode in real time, on a lane of its own")
    p.add_argument("--seed", type=workload.FROM_0, default=1)
    p.add_argument("--gpu", type=workload.FROM_0, default=0)
    p.add_argument("--time-limit", type=workload.SOME, default=300.0, metavar="S",
                   help="then the program is ended; default: %(default)s")
    p.add_argument("--json", metavar="FILE", type=workload.writable)
    a = p.parse_args()
    if a.width % HEAD:
        p.error(f"--width: {a.width}, expected a multiple of {HEAD}")
    if a.vocabulary < 2:
        p.error(f"--vocabulary: {a.vocabulary}, expected at least 2")
    return a


def plain_llama(torch, a):
    """A Llama with a static cache. Called with tokens [1, n] and their positions [n] it gives the
    logits of the last."""
    heads = a.width // HEAD
    shared = next(n for n in (4, 2, 1) if heads % n == 0)  # queries to a key
    keys, most = heads // shared, a.prompt + a.tokens

    class Norm(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(a.width))

        def forward(self, x):
            return torch.nn.functional.rms_norm(x, (a.width,), self.weight, 1e-5)

    def linear(n, m):
        return torch.nn.Linear(n, m, bias=False)

    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.before, self.between = Norm(), Norm()
            self.q, self.k = linear(a.width, heads * HEAD), linear(a.width, keys * HEAD)
            self.v, self.o = linear(a.width, keys * HEAD), linear(heads * HEAD, a.width)
            self.gate, self.up = linear(a.width, 4 * a.width), linear(a.width, 4 * a.width)
            self.down = linear(4 * a.width, a.width)
            for name in ("cached_keys", "cached_values"):
                self.register_buffer(name, torch.zeros(1, keys, most, HEAD), persistent=False)

        def forward(self, x, positions, turn, seen):
            n = x.shape[1]
            y = self.before(x)
            q = turn(self.q(y).view(1, n, heads, HEAD).transpose(1, 2))
            self.cached_keys.index_copy_(
                2, positions, turn(self.k(y).view(1, n, keys, HEAD).transpose(1, 2)))
            self.cached_values.index_copy_(
                2, positions, self.v(y).view(1, n, keys, HEAD).transpose(1, 2))
            # The queries that share a key are rows of one matrix, so that the cache is not copied.
            out = torch.nn.functional.scaled_dot_product_attention(
                q.reshape(1, keys, shared * n, HEAD), self.cached_keys, self.cached_values, seen)
            x = x + self.o(out.view(1, heads, n, HEAD).transpose(1, 2).reshape(1, n, -1))
            y = self.between(x)
            return x + self.down(torch.nn.functional.silu(self.gate(y)) * self.up(y))

    class Llama(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = torch.nn.Embedding(a.vocabulary, a.width)
            self.layers = torch.nn.ModuleList(Layer() for _ in range(a.layers))
            self.last, self.head = Norm(), linear(a.width, a.vocabulary)
            angles = torch.outer(torch.arange(most),
                                 10000.0 ** (-torch.arange(0, HEAD, 2) / HEAD)).repeat(1, 2)
            self.register_buffer("cosine", angles.cos(), persistent=False)
            self.register_buffer("sine", angles.sin(), persistent=False)
            self.register_buffer("places", torch.arange(most), persistent=False)

        def forward(self, tokens, positions):
            cosine, sine = self.cosine[positions], self.sine[positions]

            def turn(x):
                half = torch.cat((-x[..., HEAD // 2:], x[..., :HEAD // 2]), -1)
                return x * cosine + half * sine

            seen = (self.places <= positions[:, None]).repeat(shared, 1)[None, None]
            x = self.embedding(tokens)
            for layer in self.layers:
                x = layer(x, positions, turn, seen)
            return self.head(self.last(x[:, -1:]))[:, -1]

        def reset(self):
            for layer in self.layers:
                layer.cached_keys.zero_()
                layer.cached_values.zero_()

    return Llama()


def transformers_llama(torch, a):
    """The same by transformers, on its static cache."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from transformers import LlamaConfig, LlamaForCausalLM, StaticCache

    heads, most = a.width // HEAD, a.prompt + a.tokens
    config = LlamaConfig(
        vocab_size=a.vocabulary, hidden_size=a.width, intermediate_size=4 * a.width,
        num_hidden_layers=a.layers, num_attention_heads=heads,
        num_key_value_heads=heads // next(n for n in (4, 2, 1) if heads % n == 0),
        max_position_embeddings=most, attn_implementation="sdpa")

    class Llama(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.llama, self.cache = LlamaForCausalLM(config), None
            self.register_buffer("places", torch.arange(most), persistent=False)

        def forward(self, tokens, positions):
            # A cache with a counter of its own would also count the warm-up and the capture.
            for layer in self.cache.layers:
                count = getattr(layer, "cumulative_length", None)
                if torch.is_tensor(count):
                    count.copy_(positions[:1].reshape(count.shape))
            # The whole mask is given, so that no code reads values to decide whether one is needed.
            lowest = torch.finfo(self.llama.dtype).min
            mask = torch.where(self.places <= positions[:, None], 0.0, lowest)
            # The attention that torch selects for one query is not bit-reproducible.
            with sdpa_kernel([SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]):
                out = self.llama(input_ids=tokens, position_ids=positions[None],
                                 cache_position=positions, past_key_values=self.cache,
                                 use_cache=True, logits_to_keep=1,
                                 attention_mask=mask.to(self.llama.dtype)[None, None])
            return out.logits[:, -1]

        def reset(self):
            if self.cache is not None:
                self.cache.reset()
                return
            self.cache = StaticCache(config=config, max_batch_size=1, max_cache_len=most,
                                     device=self.places.device, dtype=self.llama.dtype)

    return Llama()


def make(torch, a):
    """The model on the GPU, and its name."""
    torch.manual_seed(a.seed)
    kinds = {"transformers": transformers_llama, "plain": plain_llama}
    if a.model == "auto":
        try:
            import transformers  # noqa: F401
            a.model = "transformers"
        except ImportError:
            a.model = "plain"
    with torch.device("cuda", a.gpu):
        llama = kinds[a.model](torch, a)
    llama = llama.to(torch.bfloat16).eval()
    with torch.inference_mode():
        llama.reset()
    return llama


class Loop:
    """Prefill and decode of one model, and a prompt."""

    def __init__(self, torch, a, llama):
        self.torch, self.a, self.llama = torch, a, llama
        self.cuda = torch.device("cuda", a.gpu)
        self.prompt = torch.randint(a.vocabulary, (1, a.prompt), device=self.cuda)
        self.first_places = torch.arange(a.prompt, device=self.cuda)

        def prefill(tokens):
            logits = llama(tokens, self.first_places)
            return logits.argmax(-1, keepdim=True), self.first_places[-1:] + 1

        def decode(token, position):
            return llama(token, position).argmax(-1, keepdim=True), position + 1

        self.prefill, self.decode = prefill, decode

    def reset(self):
        with self.torch.inference_mode():
            self.llama.reset()

    def places(self):
        """Memory for a token and its position, for each step."""
        return [(self.torch.zeros(1, 1, dtype=self.torch.int64, device=self.cuda),
                 self.torch.zeros(1, dtype=self.torch.int64, device=self.cuda))
                for _ in range(self.a.tokens)]

    def eager(self):
        torch = self.torch
        self.reset()
        torch.cuda.synchronize(self.a.gpu)
        began, tokens = time.perf_counter(), []
        with torch.inference_mode():
            token, position = self.prefill(self.prompt)
            tokens.append(token)
            for _ in range(self.a.tokens - 1):
                token, position = self.decode(token, position)
                tokens.append(token)
        torch.cuda.synchronize(self.a.gpu)
        return self.figures_of(tokens, time.perf_counter() - began)

    def replayed(self, prefill, decode):
        """Whole graphs one after another on torch's current stream."""
        torch, places = self.torch, self.places()
        self.reset()
        torch.cuda.synchronize(self.a.gpu)
        began = time.perf_counter()
        with torch.inference_mode():
            given = [self.prompt]
            for captured, got in zip([prefill] + [decode] * (self.a.tokens - 1), places):
                one = captured.instances[0]
                for mine, x in zip(one.inputs, given):
                    mine.copy_(x)
                one.graph.replay()
                for x, mine in zip(got, one.outputs):
                    x.copy_(mine)
                given = got
        torch.cuda.synchronize(self.a.gpu)
        return self.figures_of([token for token, _ in places], time.perf_counter() - began)

    def served(self, server, prefill, decode, pipelined):
        """Requests that follow one another; submitted at once, or each when the one before has ended."""
        places = self.places()
        self.reset()
        self.torch.cuda.synchronize(self.a.gpu)
        began, futures = time.perf_counter(), []
        given, model = self.prompt, prefill
        for got in places:
            futures.append(server.submit(model, given, outputs=got, real_time=self.a.real_time,
                                         after=futures[-1] if futures else None))
            if not pipelined:
                futures[-1].result(60)
            given, model = got, decode
        for future in futures:
            future.result(60)
        took = time.perf_counter() - began
        ends = [f.report["end"] for f in futures]
        return self.figures_of([token for token, _ in places], took,
                         [(b - a) * 1e6 for a, b in zip(ends, ends[1:])])

    def figures_of(self, tokens, seconds, gaps_us=()):
        gaps = sorted(gaps_us)
        at = lambda percent: gaps[(len(gaps) * percent + 99) // 100 - 1] if gaps else None
        return {"tokens": self.torch.cat([t.view(1) for t in tokens]).tolist(),
                "ms": seconds * 1e3, "us_per_token": seconds * 1e6 / len(tokens),
                "gap_p50_us": at(50), "gap_p99_us": at(99)}


def measure(torch, a):
    llama = make(torch, a)
    loop = Loop(torch, a, llama)
    prefill = gsched.capture(loop.prefill, loop.prompt, name="prefill", gpu=a.gpu)
    first = (torch.zeros(1, 1, dtype=torch.int64, device=loop.cuda),
             torch.full((1,), a.prompt, dtype=torch.int64, device=loop.cuda))
    if a.tokens == 1: # the cache has no place for a second one
        first[1].fill_(a.prompt - 1)
    decode = gsched.capture(loop.decode, first, name="decode", gpu=a.gpu)
    if not prefill.excludes(decode):
        raise gsched.GschedError("prefill and decode: share no written memory, expected the cache")
    lanes = {"real_time_lanes": 1} if a.real_time else {}
    with gsched.Server(policy=a.policy, gpu=a.gpu, **lanes) as server:
        models = [server.add_model(captured) for captured in (prefill, decode)]
        loop.eager() # so that all allocations have been made
        ways = {"eager": loop.eager(), "eager, again": loop.eager(), "graphs replayed": loop.replayed(prefill, decode)}
        for way, pipelined in (("requests, one by one", False), ("requests, all at once", True)):
            loop.served(server, *models, pipelined)
            ways[way] = loop.served(server, *models, pipelined)
        facts, counts = map(workload.with_units, (models[1].facts(), server.statistics()))
    for way in ways.values():
        pairs = zip(way["tokens"], ways["eager"]["tokens"])
        way["differs_at"] = next((i for i, (x, y) in enumerate(pairs) if x != y), None)
        way["equal"] = way["differs_at"] is None
    return ways, facts, counts


def main():
    a = options()
    faulthandler.dump_traceback_later(a.time_limit, exit=True)
    torch = workload.import_torch("decode_loop")
    try:
        gsched.load_library()
        torch.cuda.init()
        ways, facts, counts = measure(torch, a)
    except (gsched.GschedError, ImportError, RuntimeError, TypeError) as e:
        print(f"decode_loop: {(str(e).splitlines() or [type(e).__name__])[0]}", file=sys.stderr)
        return 1
    distinct = len(set(ways["eager"]["tokens"]))
    print(f"{a.model}: {a.layers} layers, {a.width} wide, bf16, prompt of {a.prompt}; {a.tokens} tokens, "
          f"{distinct} distinct; decode: {facts['operations']} operations, "
          f"{facts['segments']} segments")
    print(f"{'way':22} {'ms':>9} {'us a token':>11} {'gap p50':>9} {'gap p99':>9}  tokens")
    number = lambda x: f"{x:9.1f}" if x is not None else f"{'-':>9}"
    for name, way in ways.items():
        print(f"{name:22} {way['ms']:9.1f} {way['us_per_token']:11.1f} {number(way['gap_p50_us'])} "
              f"{number(way['gap_p99_us'])}  "
              + ("equal" if way["equal"] else f"DIFFERENT from token {way['differs_at']} on"),
              flush=True)
    good = all(way["equal"] for way in ways.values())
    if a.json:
        good = workload.save(a.json, {
            "device": torch.cuda.get_device_name(a.gpu), "torch": torch.__version__,
            "model": a.model, "layers": a.layers, "width": a.width, "prompt": a.prompt,
            "tokens": a.tokens, "policy": a.policy, "real_time": a.real_time,
            "distinct_tokens": distinct, "decode": facts, "statistics": counts,
            "ways": ways}) and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
