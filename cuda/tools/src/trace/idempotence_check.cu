// SPDX-License-Identifier: Apache-2.0
#include <gsched/cuda_tools/graph_accesses.hpp>
#include <gsched/cuda_tools/idempotence_check.hpp>

#include "device_buffer.hpp"
#include "owners.hpp"

#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

namespace gsched::cuda {

namespace {

constexpr unsigned threads = 256;
constexpr unsigned most_blocks = 4096;
constexpr unsigned long long nowhere = ~0ull;

__global__ void first_difference(const unsigned char* a, const unsigned char* b, std::size_t n,
                                 unsigned long long* at) {
  const std::size_t step = std::size_t{gridDim.x} * threads;
  for (std::size_t i = std::size_t{blockIdx.x} * threads + threadIdx.x; i < n; i += step)
    if (a[i] != b[i]) {
      atomicMin(at, static_cast<unsigned long long>(i));
      return; // later differences of this thread have higher addresses
    }
}

const void* pointer(std::uint64_t address) { return reinterpret_cast<const void*>(address); }

/// A copy of ranges of memory, stored one behind the other.
class image {
public:
  explicit image(cudaStream_t stream)
      : stream_(stream), found_(sizeof(unsigned long long), where) {}

  void take(const access_set& bytes) {
    if (bytes.bytes() > room_) {
      copy_ = {};
      room_ = 0;
      copy_ = device_buffer(bytes.bytes(), where);
      room_ = bytes.bytes();
    }
    each(bytes, [&](const byte_range& r, unsigned char* kept) {
      check(cudaMemcpyAsync(kept, pointer(r.first), r.bytes(), cudaMemcpyDefault, stream_), where);
      return true;
    });
    check(cudaStreamSynchronize(stream_), where);
  }

  void put_back(const access_set& bytes) {
    each(bytes, [&](const byte_range& r, unsigned char* kept) {
      check(cudaMemcpyAsync(const_cast<void*>(pointer(r.first)), kept, r.bytes(), cudaMemcpyDefault,
                            stream_),
            where);
      return true;
    });
    check(cudaStreamSynchronize(stream_), where);
  }

  /// The first difference between memory and the copy.
  [[nodiscard]] std::optional<byte_range> difference(const access_set& bytes) {
    std::optional<byte_range> different;
    each(bytes, [&](const byte_range& r, unsigned char* kept) {
      const std::uint64_t at = compare(r, kept);
      if (at == nowhere) return true;
      different = words_from(r, kept, at);
      return false;
    });
    return different;
  }

private:
  template <class F>
  void each(const access_set& bytes, F&& f) const {
    auto* kept = copy_.as<unsigned char>();
    for (const byte_range& r : bytes.ranges()) {
      if (!f(r, kept)) return;
      kept += r.bytes();
    }
  }

  [[nodiscard]] unsigned long long compare(const byte_range& r, const unsigned char* kept) {
    check(cudaMemsetAsync(found_.get(), 0xff, sizeof(unsigned long long), stream_), where);
    const auto blocks = static_cast<unsigned>(
        std::min<std::uint64_t>((r.bytes() + threads - 1) / threads, most_blocks));
    first_difference<<<blocks, threads, 0, stream_>>>(
        static_cast<const unsigned char*>(pointer(r.first)), kept, r.bytes(),
        found_.as<unsigned long long>());
    check(cudaGetLastError(), where);
    unsigned long long at = nowhere;
    check(cudaMemcpyAsync(&at, found_.get(), sizeof at, cudaMemcpyDeviceToHost, stream_), where);
    check(cudaStreamSynchronize(stream_), where);
    return at;
  }

  /// The range from the word that contains byte `at` up to the next equal word, within 4 KiB.
  [[nodiscard]] byte_range words_from(const byte_range& r, const unsigned char* kept,
                                      std::uint64_t at) const {
    std::array<unsigned char, 4096> now, then;
    const std::uint64_t from = std::max(r.first, (r.first + at) & ~std::uint64_t{3});
    const auto bytes = std::min<std::uint64_t>(now.size(), r.last - from);
    check(cudaMemcpyAsync(now.data(), pointer(from), bytes, cudaMemcpyDefault, stream_), where);
    check(cudaMemcpyAsync(then.data(), kept + (from - r.first), bytes, cudaMemcpyDefault, stream_),
          where);
    check(cudaStreamSynchronize(stream_), where);
    std::uint64_t n = 0;
    while (n < bytes) {
      const auto word = std::min<std::uint64_t>(4, bytes - n);
      if (std::memcmp(now.data() + n, then.data() + n, word) == 0) break;
      n += word;
    }
    return {from, from + n};
  }

  static constexpr const char* where = "idempotence check";
  cudaStream_t stream_;
  device_buffer found_;
  device_buffer copy_;
  std::uint64_t room_ = 0;
};

void run_one(const program& p, std::size_t i, cudaStream_t stream) {
  const std::string where = "graph " + p.host().name() + ": operation " + std::to_string(i);
  check(p.launch_each(i, i + 1, stream, {}), where.c_str());
  check(cudaStreamSynchronize(stream), where.c_str());
}

std::string hex(std::uint64_t address) {
  std::array<char, 24> text{};
  std::snprintf(text.data(), text.size(), "0x%llx", static_cast<unsigned long long>(address));
  return text.data();
}

} // namespace

std::optional<second_run_difference> find_clobber(const program& p, const access_trace& what) {
  const std::string graph = "graph " + p.host().name();
  if (what.operations.size() != p.host().size())
    throw error(errc::bad_option, graph + ": accesses of " +
                                      std::to_string(what.operations.size()) +
                                      " operations, expected " + std::to_string(p.host().size()));
  check(cudaDeviceSynchronize(), graph.c_str()); // completes writes of the program's inputs
  const stream_owner on = make_stream("stream");
  image copy(on.get());
  std::optional<second_run_difference> first;
  for (std::size_t i = 0; i < what.operations.size(); ++i) {
    run_one(p, i, on.get());
    const operation_access& o = what.operations[i];
    if (first || o.says != declared::idempotent) continue;
    const access_set writes = o.writes | o.writes_first;
    copy.take(writes);
    run_one(p, i, on.get());
    const std::optional<byte_range> different = copy.difference(writes);
    if (!different) continue;
    copy.put_back(writes);
    first = {i, o.name, *different};
  }
  return first;
}

void check_idempotent(const program& p, const access_trace& what) {
  const auto found = find_clobber(p, what);
  if (!found) return;
  throw error(errc::bad_option, "graph " + p.host().name() + ": operation " +
                                    std::to_string(found->operation) + ", " + found->name +
                                    ", is declared idempotent but its second run changed bytes " +
                                    hex(found->range.first) + " to " + hex(found->range.last) +
                                    ", expected none to");
}

void check_idempotent(const program& p) {
  access_trace all = accesses_of(p);
  for (operation_access& o : all.operations)
    if (o.kind == operation_kind::kernel) o.says = declared::idempotent;
  check_idempotent(p, all);
}

} // namespace gsched::cuda
