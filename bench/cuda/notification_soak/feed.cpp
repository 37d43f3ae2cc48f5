// SPDX-License-Identifier: Apache-2.0
#include "feed.hpp"

#include <gsched/cuda/driver.hpp>
#include <gsched/cuda/error.hpp>

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

namespace soak {

namespace cuda = gsched::cuda;

namespace {

cudaStream_t make_stream() {
  cudaStream_t s = nullptr;
  cuda::check(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking), "stream");
  return s;
}

} // namespace

feed::feed(const cuda::gpu& gpu, const shape& how, std::uint64_t seed)
    : how_(how), random_(seed), ring_(gpu.ordinal, how.slots), books_(gpu.sms.count()),
      graphs_(how.graphs), singles_on_(make_stream()) {
  for (graph& g : graphs_) build(g);
}

feed::~feed() {
  for (const graph& g : graphs_) {
    static_cast<void>(cuda::driver().cuGraphExecDestroy(g.exec));
    cudaStreamDestroy(g.stream);
  }
  cudaStreamDestroy(singles_on_);
}

/// A kernel that reports about that many words.
work feed::draw(std::uint64_t words) {
  constexpr std::array threads{1u, 32u, 32u, 64u, 96u, 128u, 256u, 1024u};
  constexpr std::array groups{1u, 1u, 1u, 1u, 2u, 7u, 16u};
  work w;
  w.how = static_cast<body>(random_() % bodies);
  w.threads = threads[random_() % threads.size()];
  w.group = groups[random_() % groups.size()];
  const std::uint64_t most = std::max<std::uint64_t>(words * w.group / 2, 1);
  w.blocks = static_cast<unsigned>(1 + random_() % std::min<std::uint64_t>(most, 1'000'000));
  return w;
}

/// A chain of kernels, so that its words arrive kernel by kernel.
void feed::build(graph& g) {
  const cuda::driver_functions& cu = cuda::driver();
  g.stream = make_stream();
  cuda::check(cudaStreamBeginCapture(g.stream, cudaStreamCaptureModeThreadLocal), "capture");
  for (unsigned i = 0; i < how_.kernels; ++i) {
    const work w = draw(2 * how_.graph_words / how_.kernels); // half of that on average
    g.last = ring_.take_slot(w.group);
    books_.open(g.last, w.blocks);
    g.words += ring_.words_of(g.last, w.blocks);
    cuda::check(soak::launch(w, g.stream, ring_.report_of(g.last)), "capture");
  }
  cudaGraph_t captured = nullptr;
  cuda::check(cudaStreamEndCapture(g.stream, &captured), "capture");
  cuda::check(cu.cuGraphInstantiateWithFlags(&g.exec, captured, 0), "graph");
  cuda::check(cu.cuGraphDestroy(captured), "graph");
  ring_.flow().expect_fits(g.words);
}

bool feed::reserve(std::uint64_t words) noexcept {
  if (!ring_.flow().try_reserve(words)) return false;
  tally_.most_reserved = std::max(tally_.most_reserved, ring_.flow().reserved());
  return true;
}

void feed::launch() {
  for (graph& g : graphs_) {
    while (g.launched - g.over < how_.in_flight) {
      if (!reserve(g.words)) {
        tally_.held += !g.held; // once, however often it is tried
        g.held = true;
        break;
      }
      g.held = false;
      cuda::check(cuda::driver().cuGraphLaunch(g.exec, g.stream), "graph");
      ++g.launched;
      if (++tally_.graph_launches % how_.direct_every == 0) launch_single();
    }
  }
  // The first one tried takes the free words: the next round starts with another.
  std::rotate(graphs_.begin(), graphs_.begin() + 1, graphs_.end());
}

void feed::launch_single() {
  if (singles_.size() >= 4) return;
  single one;
  one.what = draw(2ull * how_.direct_blocks);
  one.slot = ring_.take_slot(one.what.group);
  one.words = ring_.words_of(one.slot, one.what.blocks);
  if (!reserve(one.words)) {
    ++tally_.held;
    ring_.give_back(one.slot);
    return;
  }
  books_.open(one.slot, one.what.blocks);
  static_cast<void>(ring_.count_launch(one.slot));
  cuda::check(soak::launch(one.what, singles_on_, ring_.report_of(one.slot)), "launch");
  ++tally_.direct_launches;
  singles_.push_back(one);
}

std::size_t feed::read() {
  using clock = std::chrono::steady_clock;
  if (look_again_ != clock::time_point{}) {
    if (clock::now() < look_again_) return 0;
    look_again_ = {};
  }
  const std::size_t words = ring_.reader().drain(books_, std::size_t{1} << 15);
  if (words == 0) {
    ++tally_.empty_looks;
    if (how_.rest.count() > 0) look_again_ = clock::now() + how_.rest;
    return 0;
  }
  for (graph& g : graphs_)
    while (g.over < books_.launches_of(g.last)) {
      ++g.over;
      ring_.flow().release(g.words);
    }
  while (!singles_.empty() && books_.launches_of(singles_.front().slot) == 1) {
    ring_.flow().release(singles_.front().words);
    ring_.give_back(singles_.front().slot);
    singles_.pop_front();
  }
  return words;
}

bool feed::idle() const noexcept {
  return singles_.empty() && std::all_of(graphs_.begin(), graphs_.end(),
                                         [](const graph& g) { return g.over == g.launched; });
}

void feed::finalise() { ring_.reader().finalise(ring_.flow().total(), books_); }

} // namespace soak
