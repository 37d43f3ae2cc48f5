// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "oracle.hpp"
#include "spec.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace work_graph {

/// The features of random graphs; bits, in the order of their names.
enum feature : std::uint32_t {
  forks = 1u << 0,
  children = 1u << 1,
  clusters = 1u << 2,
  cooperative = 1u << 3,
  full_shared = 1u << 4,
  programmatic = 1u << 5,
  copies = 1u << 6,
  transfers = 1u << 7,
  sets = 1u << 8,
  host_nodes = 1u << 9,
  empty_nodes = 1u << 10,
  priorities = 1u << 11,
  long_blocks = 1u << 12,
  full_grids = 1u << 13,
  captures = 1u << 14,
  all_features = (1u << 15) - 1
};
inline constexpr std::array<std::string_view, 15> feature_names{
    "forks",        "children",   "clusters",    "cooperative", "full_shared",
    "programmatic", "copies",     "transfers",   "sets",        "host",
    "empty",        "priorities", "long_blocks", "full_grids",  "captures"};

/// The same numbers for the same seed, independent of the standard library.
class random_source {
public:
  explicit random_source(std::uint64_t seed) : engine_(seed) {}

  [[nodiscard]] std::uint64_t number() { return engine_(); }
  /// 0 to n - 1.
  [[nodiscard]] std::uint32_t below(std::uint64_t n) {
    return static_cast<std::uint32_t>(engine_() % n);
  }
  [[nodiscard]] bool one_in(std::uint32_t n) { return below(n) == 0; }
  [[nodiscard]] double uniform() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }
  /// From least to most, uniform in the logarithm.
  [[nodiscard]] double log_uniform(double least, double most) {
    return least * std::pow(most / least, uniform());
  }
  [[nodiscard]] std::uint32_t log_count(std::uint32_t least, std::uint32_t most) {
    if (most <= least) return least;
    const double x = log_uniform(least, static_cast<double>(most) + 1);
    return std::min(static_cast<std::uint32_t>(x), most);
  }
  template <class T, std::size_t N>
  [[nodiscard]] T of(const std::array<T, N>& values) {
    return values[below(N)];
  }

private:
  std::mt19937_64 engine_;
};

struct random_shape {
  std::uint32_t most_nodes = 2000;
  double most_us = 30e3;               ///< approximate sum of its kernels' times
  std::uint64_t most_bytes = 6u << 20; ///< of its memory on both sides
  std::uint32_t features = all_features;
};

namespace detail {

class grower {
public:
  grower(graph& g, random_source& random, const random_shape& how)
      : g_(g), random_(random), how_(how) {}

  void grow(std::uint32_t nodes) {
    budget_ = nodes;
    level(none, nodes, 0);
  }

private:
  static constexpr std::uint32_t widest = 32;

  [[nodiscard]] bool may(std::uint32_t what) const noexcept { return (how_.features & what) != 0; }
  [[nodiscard]] std::uint32_t left() const noexcept {
    const auto n = static_cast<std::uint32_t>(g_.nodes.size());
    return n < budget_ ? budget_ - n : 0;
  }

  void level(std::uint32_t parent, std::uint32_t nodes, unsigned depth) {
    const std::size_t end = g_.nodes.size() + nodes;
    const auto more = [&] { return g_.nodes.size() < end; };
    const unsigned style = may(forks) ? random_.below(3) : 0;
    std::vector<std::uint32_t> all{add(parent, {}, depth)};
    while (more()) {
      if (style == 0) {
        all.push_back(add(parent, {all.back()}, depth));
      } else if (style == 1) {
        const std::uint32_t from = all.back();
        std::vector<std::uint32_t> tips;
        const std::uint32_t width = random_.log_count(2, widest);
        for (std::uint32_t b = 0; b < width && more(); ++b) {
          std::uint32_t tip = from;
          for (std::uint32_t k = 1 + random_.below(5); k > 0 && more(); --k)
            tip = add(parent, {tip}, depth);
          if (tip != from) tips.push_back(tip);
        }
        all.insert(all.end(), tips.begin(), tips.end());
        if (more()) all.push_back(add(parent, std::move(tips), depth));
      } else {
        std::vector<std::uint32_t> after;
        const std::size_t near = std::min<std::size_t>(all.size(), 16);
        for (std::uint32_t k = random_.one_in(20) ? 0 : 1 + random_.below(3); k > 0; --k) {
          const std::uint32_t from = all[all.size() - 1 - random_.below(near)];
          if (std::find(after.begin(), after.end(), from) == after.end()) after.push_back(from);
        }
        all.push_back(add(parent, std::move(after), depth));
      }
    }
  }

  /// A node with its predecessors, and the members of a child node. Returns its number.
  std::uint32_t add(std::uint32_t parent, std::vector<std::uint32_t> after, unsigned depth) {
    const auto i = static_cast<std::uint32_t>(g_.nodes.size());
    node n;
    n.parent = parent;
    for (const std::uint32_t from : after) n.after.push_back({from, order::full, false});
    n.what = draw_kind(depth, after);
    n.salt = static_cast<std::uint32_t>(random_.number());
    if (n.what == kind::kernel) draw_kernel(n);
    if (n.what == kind::kernel) draw_programmatic(n);
    g_.nodes.push_back(std::move(n));
    ordered_by_.add(g_, i);
    readers_.emplace_back();
    taken_.push_back(false);
    draw_memory(g_.nodes[i], i);
    for (const std::uint32_t r : g_.nodes[i].reads) readers_[r].push_back(i);
    if (g_.nodes[i].what == kind::child)
      level(i, random_.log_count(1, std::min(left(), 64u)), depth + 1);
    return i;
  }

  [[nodiscard]] kind draw_kind(unsigned depth, const std::vector<std::uint32_t>& after) {
    const std::uint32_t x = random_.below(100);
    if (x < 55 || g_.nodes.empty()) return kind::kernel; // one operation at least
    if (x < 65 && may(sets)) return kind::set;
    if (x < 72 && may(copies) && !sources(after, on_device).empty()) return kind::copy;
    if (x < 77 && may(transfers) && !sources(after, on_device).empty()) return kind::to_host;
    if (x < 82 && may(transfers)) return kind::to_device;
    if (x < 86 && may(host_nodes)) return kind::host;
    if (x < 90 && may(empty_nodes) && !g_.captured) return kind::empty;
    if (x < 94 && may(children) && !g_.captured && depth < 3 && left() > 2) return kind::child;
    return kind::kernel;
  }

  void draw_kernel(node& n) {
    static constexpr std::array<std::uint32_t, 6> threads{32, 64, 128, 256, 512, 1024};
    n.us = spent_us_ > how_.most_us                ? 2
           : may(long_blocks) && random_.one_in(8) ? random_.log_uniform(50, 2000)
                                                   : random_.log_uniform(5, 50);
    n.us = std::min(n.us, std::max(how_.most_us / 4, 2.));
    n.us = std::round(n.us * 10) / 10;
    n.threads = random_.of(threads);
    n.blocks = random_.log_count(1, 264);
    if (may(priorities) && random_.one_in(3)) n.priority = random_.below(6);
    if (may(full_shared) && random_.one_in(12)) {
      n.shared = random_.one_in(3) ? 1 + random_.below(100) : 100; // often one block on each SM
      n.blocks = random_.log_count(1, 132);
    }
    if (may(full_grids) && random_.one_in(6))
      n.fill = random_.of(std::array<std::uint32_t, 4>{50, 100, 200, 300});
    if (may(cooperative) && random_.one_in(12)) {
      n.cooperative = true;
      n.fill = random_.of(std::array<std::uint32_t, 4>{10, 25, 75, 100});
    } else if (may(clusters) && random_.one_in(8)) {
      n.cluster = 2u << random_.below(3);
      n.blocks = (n.blocks + n.cluster - 1) / n.cluster * n.cluster;
    }
    spent_us_ += expected_us(n);
  }

  void draw_programmatic(node& n) {
    if (!may(programmatic) || n.after.size() != 1 || n.cooperative || !random_.one_in(3)) return;
    node& from = g_.nodes[n.after[0].from];
    if (from.what != kind::kernel || from.cooperative) return;
    n.after[0].how = random_.one_in(4) ? order::overlaps : order::waits;
    n.after[0].at_start = random_.one_in(4);
    if (random_.one_in(2)) from.triggers = true;
  }

  /// Nodes whose buffers the next node may read if it follows `after`, on one side of memory.
  template <class Side>
  [[nodiscard]] std::vector<std::uint32_t> sources(const std::vector<std::uint32_t>& after,
                                                   const Side& side) const {
    std::vector<std::uint32_t> all;
    for (const std::uint32_t from : after) collect(from, side, all);
    return all;
  }
  template <class Side>
  void collect(std::uint32_t from, const Side& side, std::vector<std::uint32_t>& into) const {
    const node& n = g_.nodes[from];
    if (into.size() >= most_reads - 1) return;
    if (n.what == kind::empty) {
      for (const edge& e : n.after) collect(e.from, side, into);
      return;
    }
    if (n.what == kind::child) {
      std::size_t last = from + 1;
      while (last < g_.nodes.size() &&
             ordering::is_within(g_, static_cast<std::uint32_t>(last), from))
        ++last;
      for (std::size_t k = 0; k < 4 && last - k > from + 1; ++k)
        insert(static_cast<std::uint32_t>(last - 1 - k), side, into);
      return;
    }
    insert(from, side, into);
  }
  template <class Side>
  void insert(std::uint32_t i, const Side& side, std::vector<std::uint32_t>& into) const {
    if (side(g_.nodes[i].what) && !taken_[i] &&
        std::find(into.begin(), into.end(), i) == into.end())
      into.push_back(i);
  }

  void draw_memory(node& n, std::uint32_t i) {
    if (!has_buffer(n.what)) return;
    std::vector<std::uint32_t> after;
    for (const edge& e : n.after)
      if (e.how != order::overlaps) after.push_back(e.from);
    const bool host = on_host(n.what);
    const std::vector<std::uint32_t> mine =
        sources(after, [&](kind k) { return has_buffer(k) && on_host(k) == host; });
    if (!mine.empty() && random_.one_in(3)) try_take(n, i, mine[random_.below(mine.size())]);
    switch (n.what) {
    case kind::kernel: mix(n, i, after, has_buffer, 512); break;
    case kind::host: mix(n, i, after, on_host, 256); break;
    case kind::set: draw_set(n); break;
    case kind::copy:
    case kind::to_host: draw_copy(n, sources(after, on_device)); break;
    default: draw_copy(n, sources(after, on_host)); break;
    }
    if (n.takes != none) taken_[n.takes] = true;
    if (n.takes == none) spent_bytes_ += n.bytes;
  }

  void try_take(node& n, std::uint32_t i, std::uint32_t from) {
    const node& p = g_.nodes[from];
    const bool mixes = n.what == kind::kernel || n.what == kind::host;
    if (p.bytes < (mixes ? 4 : 8) || !ordered_by_.precedes(from, i)) return;
    for (const std::uint32_t r : readers_[from])
      if (!ordered_by_.precedes(r, i)) return;
    n.takes = from;
    // A buffer that is overwritten as a whole would not show whether it had been computed.
    n.bytes = mixes ? p.bytes / 4 * 4 : p.bytes / 8 * 4;
  }

  template <class Side>
  void mix(node& n, std::uint32_t i, const std::vector<std::uint32_t>& after, const Side& side,
           std::uint32_t most) {
    if (n.takes == none) n.bytes = 4 * random_.log_count(8, most);
    n.reads = sources(after, side);
    if (i > 0 && random_.one_in(4)) {
      const std::uint32_t other = random_.below(i);
      if (ordered_by_.precedes(other, i)) insert(other, side, n.reads);
    }
    std::erase(n.reads, n.takes);
  }

  /// The bytes that a new buffer may have.
  [[nodiscard]] std::uint32_t room() const noexcept {
    const std::uint64_t left =
        how_.most_bytes > spent_bytes_ ? (how_.most_bytes - spent_bytes_) / 2 : 0;
    return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(left, 8, most_bytes));
  }
  [[nodiscard]] std::uint32_t draw_bytes() {
    static constexpr std::array<std::uint32_t, 3> most{64, 64u << 10, most_bytes};
    return random_.log_count(1, std::min(random_.of(most), room()));
  }

  void draw_set(node& n) {
    if (n.takes == none) n.bytes = draw_bytes();
    set_shape& s = n.set;
    s.element = 1u << random_.below(3);
    if (n.bytes < s.element) s.element = 1;
    const std::uint32_t elements = n.bytes / s.element;
    s.width = random_.one_in(2) ? elements : random_.log_count(1, elements);
    if (elements >= 4 && random_.one_in(3)) {
      s.height = 2 + random_.below(std::min(63u, elements / 2 - 1));
      const std::uint32_t row = elements / s.height;
      s.width = 1 + random_.below(row);
      s.pitch = row * s.element;
    }
    s.value = static_cast<std::uint32_t>(random_.number()) >> (32 - 8 * s.element);
  }

  void draw_copy(node& n, std::vector<std::uint32_t> from) {
    std::erase(from, n.takes);
    const bool needs = n.what != kind::to_device;
    if (from.empty() && needs) { // a copy that takes all that there is to read
      n.what = kind::set;
      draw_set(n);
      return;
    }
    std::uint32_t most = n.takes != none ? n.bytes : room();
    if (!from.empty() && (needs || random_.one_in(2))) {
      n.reads = {from[random_.below(from.size())]};
      most = std::min(most, g_.nodes[n.reads[0]].bytes);
    } else {
      most = std::min(most, draw_bytes());
    }
    n.bytes = random_.one_in(2) ? most : random_.log_count(1, most);
  }

  graph& g_;
  random_source& random_;
  const random_shape& how_;
  ordering ordered_by_;
  std::vector<std::vector<std::uint32_t>> readers_;
  std::vector<bool> taken_;
  std::uint32_t budget_ = 0;
  double spent_us_ = 0;
  std::uint64_t spent_bytes_ = 0;
};

} // namespace detail

/// A valid graph; the same one for the same name, seed and shape.
[[nodiscard]] inline graph random_graph(std::string name, std::uint64_t seed,
                                        const random_shape& how) {
  random_source random(seed);
  graph g;
  g.name = std::move(name);
  g.seed = seed;
  g.captured = (how.features & captures) != 0 && random.one_in(4);
  detail::grower(g, random, how).grow(random.log_count(1, std::max(how.most_nodes, 1u)));
  return g;
}

} // namespace work_graph
