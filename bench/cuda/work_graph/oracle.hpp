// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mixing.hpp"
#include "spec.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace work_graph {

/// The positions of a graph's buffers, as offsets into two ranges of memory: the GPU's and pinned.
struct layout {
  static constexpr std::size_t alignment = 256;

  std::vector<std::size_t> own;   ///< by node; on the side that its kind works on
  std::vector<std::size_t> extra; ///< by node: a cooperative kernel's words between its halves, on
                                  ///< the GPU, or what to_device copies that reads nothing
  std::size_t device_bytes = 0;
  std::size_t host_bytes = 0;

  explicit layout(const graph& g) : own(g.nodes.size()), extra(g.nodes.size()) {
    for (std::uint32_t i = 0; i < g.nodes.size(); ++i) {
      const node& n = g.nodes[i];
      if (!has_buffer(n.what)) continue;
      own[i] = n.takes != none ? own[n.takes]
                               : take(on_device(n.what) ? device_bytes : host_bytes, n.bytes);
      if (n.cooperative) extra[i] = take(device_bytes, most_words * sizeof(std::uint32_t));
      if (n.what == kind::to_device && n.reads.empty()) extra[i] = take(host_bytes, n.bytes);
    }
  }

private:
  static std::size_t take(std::size_t& all, std::size_t bytes) {
    const std::size_t at = all;
    all += (bytes + alignment - 1) / alignment * alignment;
    return at;
  }
};

/// Words of a buffer; the last may extend beyond what its node processes.
[[nodiscard]] constexpr std::uint32_t words_of(const node& n) noexcept { return (n.bytes + 3) / 4; }

/// The contents of both ranges before the first run.
inline void fill_initially(const graph& g, std::span<std::byte> memory, std::uint32_t side) {
  const auto seed = static_cast<std::uint32_t>(g.seed ^ (g.seed >> 32));
  for (std::size_t i = 0; i + 4 <= memory.size(); i += 4) {
    const std::uint32_t x = mixed(static_cast<std::uint32_t>(i), seed, 17 + side);
    std::memcpy(memory.data() + i, &x, sizeof x);
  }
}

/// The memory of a graph on the host, and the effect of runs of the graph on it.
///
/// Cost     of a run: O(words that its nodes process, times what they read).
class oracle {
public:
  explicit oracle(const graph& g)
      : graph_(g), at_(g), device_(at_.device_bytes), host_(at_.host_bytes) {
    reset();
  }

  void reset() {
    fill_initially(graph_, device_, 0);
    fill_initially(graph_, host_, 1);
  }
  /// All nodes once, in the order of their numbers.
  void run() {
    for (std::uint32_t i = 0; i < graph_.nodes.size(); ++i) run(i);
  }
  /// One node.
  void run(std::uint32_t i) {
    const node& n = graph_.nodes[i];
    switch (n.what) {
    case kind::kernel:
    case kind::host: mix(i); break;
    case kind::set: fill(i); break;
    case kind::copy:
    case kind::to_host: copy(i, side(n.reads[0]) + at_.own[n.reads[0]]); break;
    case kind::to_device:
      copy(i, host_.data() + (n.reads.empty() ? at_.extra[i] : at_.own[n.reads[0]]));
      break;
    case kind::empty:
    case kind::child: break;
    }
  }

  [[nodiscard]] std::span<const std::byte> device() const noexcept { return device_; }
  [[nodiscard]] std::span<const std::byte> host() const noexcept { return host_; }
  [[nodiscard]] const layout& where() const noexcept { return at_; }
  /// The approximate cost of a run: words mixed and bytes copied or set, divided by what the host
  /// does in a ns.
  [[nodiscard]] static double cost_ns(const graph& g) noexcept {
    double ns = 0;
    for (const node& n : g.nodes) {
      if (n.what == kind::kernel || n.what == kind::host)
        ns += 4. * counted(words_of(n)) * (1. + static_cast<double>(n.reads.size()));
      else if (has_buffer(n.what))
        ns += n.bytes / 4.;
      ns += 20;
    }
    return ns;
  }

private:
  [[nodiscard]] std::byte* side(std::uint32_t i) noexcept {
    return (on_device(graph_.nodes[i].what) ? device_ : host_).data();
  }
  [[nodiscard]] static std::uint32_t load(const std::byte* at) noexcept {
    std::uint32_t x = 0;
    std::memcpy(&x, at, sizeof x);
    return x;
  }
  static void store(std::byte* at, std::uint32_t x) noexcept { std::memcpy(at, &x, sizeof x); }

  void mix(std::uint32_t i) {
    const node& n = graph_.nodes[i];
    std::byte* const own = side(i) + at_.own[i];
    const std::uint32_t words = words_of(n);
    const std::uint32_t count = counted(words);
    reads_.clear();
    for (const std::uint32_t r : n.reads)
      reads_.push_back({reinterpret_cast<const std::uint32_t*>(side(r) + at_.own[r]),
                        words_of(graph_.nodes[r])});
    half_.resize(count);
    for (std::uint32_t j = 0; j < count; ++j)
      half_[j] = gathered(load(own + 4 * place(words, j)), j, reads_.data(),
                          static_cast<std::uint32_t>(reads_.size()), [](const std::uint32_t* at) {
                            return load(reinterpret_cast<const std::byte*>(at));
                          });
    for (std::uint32_t j = 0; j < count; ++j)
      store(own + 4 * place(words, j),
            finished(half_[j], n.cooperative ? half_[partner(j, count)] : j, n.salt,
                     n.what == kind::kernel ? n.cluster : 1));
    if (n.cooperative) std::memcpy(device_.data() + at_.extra[i], half_.data(), 4 * half_.size());
  }

  void fill(std::uint32_t i) {
    const node& n = graph_.nodes[i];
    for (std::uint32_t row = 0; row < n.set.height; ++row) {
      std::byte* const at = side(i) + at_.own[i] + std::size_t{row} * n.set.pitch;
      // Elements are stored with their lowest byte first, as the GPU does.
      for (std::uint32_t x = 0; x < n.set.width; ++x)
        std::memcpy(at + std::size_t{x} * n.set.element, &n.set.value, n.set.element);
    }
  }

  void copy(std::uint32_t i, const std::byte* from) {
    std::memmove(side(i) + at_.own[i], from, graph_.nodes[i].bytes);
  }

  const graph& graph_;
  layout at_;
  std::vector<std::byte> device_;
  std::vector<std::byte> host_;
  std::vector<source> reads_;
  std::vector<std::uint32_t> half_;
};

} // namespace work_graph
