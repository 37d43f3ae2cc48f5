// SPDX-License-Identifier: Apache-2.0
#include "graph/end/end_words.hpp"

#include "graph/end/graph_end.hpp"
#include "owners.hpp"
#include "relaxed_capture.hpp"
#include <gsched/core/sync.hpp>
#include <gsched/cuda/error.hpp>

#include <cstring>
#include <memory>
#include <utility>

namespace gsched::cuda {

struct end_words::chunk {
  struct line {
    alignas(sync::cache_line) std::uint64_t ended = 0;
    alignas(sync::cache_line) gate_line gates{};
  };
  struct freed {
    void operator()(line* p) const noexcept { cudaFreeHost(p); }
    void operator()(std::uint64_t* p) const noexcept { cudaFree(p); }
  };

  std::unique_ptr<line, freed> lines;
  std::unique_ptr<std::uint64_t, freed> counts;
  std::array<end_word, chunk_words> words;
};

end_words::end_words() = default;

end_words::~end_words() {
  if (!abandoned_) return;
  for (auto& c : chunks_) static_cast<void>(c.release());
}

void end_words::add_chunk() {
  constexpr const char* what = "words of ended graphs";
  const relaxed_capture here;
  auto c = std::make_unique<chunk>();
  void* memory = nullptr;
  check(cudaHostAlloc(&memory, chunk_words * sizeof(chunk::line), cudaHostAllocMapped), what);
  c->lines.reset(static_cast<chunk::line*>(memory));
  std::memset(memory, 0, chunk_words * sizeof(chunk::line)); // all bytes: the copy below reads them
  void* seen = nullptr;
  check(cudaHostGetDevicePointer(&seen, memory, 0), what);
  void* counts = nullptr;
  check(cudaMalloc(&counts, chunk_words * sizeof(std::uint64_t)), what);
  c->counts.reset(static_cast<std::uint64_t*>(counts));
  // Zeroes the counts by a copy, because a memset outside of a graph is a kernel. A stream of its
  // own avoids waiting for other work. The lines are zero and pinned.
  const stream_owner s = make_stream(what);
  check(cudaMemcpyAsync(counts, memory, chunk_words * sizeof(std::uint64_t), cudaMemcpyHostToDevice,
                        s.get()),
        what);
  check(cudaStreamSynchronize(s.get()), what);
  free_.reserve((chunks_.size() + 1) * chunk_words);
  for (std::size_t i = chunk_words; i-- > 0;) {
    end_word& w = c->words[i];
    w.seen = &c->lines.get()[i].ended;
    w.word = reinterpret_cast<CUdeviceptr>(seen) + i * sizeof(chunk::line);
    w.count = reinterpret_cast<CUdeviceptr>(counts) + i * sizeof(std::uint64_t);
    w.gates = &c->lines.get()[i].gates;
    w.gates_device = w.word + offsetof(chunk::line, gates);
  }
  chunks_.push_back(std::move(c));
  for (std::size_t i = chunk_words; i-- > 0;) free_.push_back(&chunks_.back()->words[i]);
}

void end_words::give_back(end_word* w) noexcept {
  const std::lock_guard lock(set_up_);
  free_.push_back(w); // within the reserved capacity
}

end_word* end_words::take() {
  const std::lock_guard lock(set_up_);
  if (free_.empty()) add_chunk();
  end_word* const w = free_.back();
  free_.pop_back();
  return w;
}

void add_marker(const driver_functions& cu, CUgraph graph, marker kind, const end_word& to,
                CUcontext place) {
  CUdeviceptr count = to.count;
  CUdeviceptr word = to.word;
  void* arguments[] = {&count, &word};
  CUDA_KERNEL_NODE_PARAMS k{};
  k.kern = marker_kernel(kind);
  k.ctx = place;
  k.gridDimX = k.gridDimY = k.gridDimZ = 1;
  k.blockDimX = k.blockDimY = k.blockDimZ = 1;
  k.kernelParams = arguments;
  add_at_end(cu, graph, k);
}

} // namespace gsched::cuda
