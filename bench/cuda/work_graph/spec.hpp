// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

/// Graphs of deterministic work, described without CUDA: what each node does to memory, and what it
/// waits for. A description can be drawn at random, written and read as text, made smaller, built
/// as a CUDA graph and evaluated on the host.
namespace work_graph {

inline constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();

enum class kind : std::uint8_t {
  kernel,
  copy,      ///< from device memory to device memory
  to_device, ///< from pinned memory
  to_host,   ///< to pinned memory
  set,       ///< of device memory
  host,      ///< a function on the host, which works on pinned memory
  empty,
  child ///< a graph of its own: the nodes whose `parent` it is
};

/// How a node waits for another one of its level.
enum class order : std::uint8_t {
  full,    ///< it starts when the other has ended
  waits,   ///< programmatic: the kernel may start earlier, and waits for the other's end inside
  overlaps ///< programmatic: the kernel never waits, so it is not ordered behind the other
};

struct edge {
  std::uint32_t from = 0;
  order how = order::full;
  bool at_start = false; ///< programmatic: may start once all blocks of the other have begun
};

/// Rows of `width` elements, `pitch` bytes apart.
struct set_shape {
  std::uint32_t element = 1; ///< bytes: 1, 2 or 4
  std::uint32_t value = 0;
  std::uint32_t width = 1;
  std::uint32_t height = 1;
  std::uint32_t pitch = 0; ///< counts where height > 1

  [[nodiscard]] std::uint64_t end() const noexcept { ///< bytes up to the end of the last row
    return std::uint64_t{height - 1} * pitch + std::uint64_t{width} * element;
  }
};

struct node {
  kind what = kind::kernel;
  std::uint32_t parent = none;        ///< the child node that holds it
  std::vector<edge> after{};          ///< nodes of its level
  std::vector<std::uint32_t> reads{}; ///< nodes whose buffers it reads
  std::uint32_t takes = none; ///< works on the buffer of this node from now on, not on a new one
  std::uint32_t bytes = 4;    ///< of its buffer that it works on
  std::uint32_t salt = 0;

  // Kernels.
  double us = 5;               ///< that each block stays
  std::uint32_t blocks = 1;    ///< counts where `fill` is 0
  std::uint32_t fill = 0;      ///< percent of the blocks that fit on the GPU at once
  std::uint32_t threads = 128; ///< of a block
  std::uint32_t cluster = 1;   ///< blocks
  bool cooperative = false;    ///< has a barrier of the whole grid
  std::uint32_t shared = 0;    ///< percent of the dynamic shared memory that a block can have
  bool triggers = false;       ///< lets programmatic successors start early
  std::uint32_t priority = 0;  ///< steps above the least urgent one

  set_shape set{};
};

struct graph {
  std::string name = "graph";
  std::uint64_t seed = 0; ///< of the memory it starts with
  bool captured = false;  ///< built by stream capture, not node by node
  std::vector<node> nodes{};
};

[[nodiscard]] constexpr bool on_device(kind k) noexcept {
  return k == kind::kernel || k == kind::copy || k == kind::to_device || k == kind::set;
}
[[nodiscard]] constexpr bool on_host(kind k) noexcept {
  return k == kind::to_host || k == kind::host;
}
[[nodiscard]] constexpr bool has_buffer(kind k) noexcept { return on_device(k) || on_host(k); }
/// Whether a gsched program counts it as an operation.
[[nodiscard]] constexpr bool is_operation(kind k) noexcept {
  return on_device(k) || k == kind::to_host;
}
/// A kernel that waits for the end of the kernels before it, inside.
[[nodiscard]] inline bool waits_inside(const node& n) noexcept {
  return std::any_of(n.after.begin(), n.after.end(),
                     [](const edge& e) { return e.how == order::waits; });
}

/// What it is expected to take alone; microseconds.
[[nodiscard]] inline double expected_us(const node& n) noexcept {
  constexpr double launch = 2;
  constexpr double bytes_per_us = 20e3; // of a copy to or from the host
  switch (n.what) {
  case kind::kernel: return launch + n.us * ((n.fill + 99) / 100 + (n.fill == 0 ? 1 : 0));
  case kind::empty:
  case kind::child: return 0;
  case kind::host: return 10;
  default: return launch + n.bytes / bytes_per_us;
  }
}
[[nodiscard]] inline double expected_us(const graph& g) noexcept {
  double us = 0;
  for (const node& n : g.nodes) us += expected_us(n);
  return us;
}

/// For each node, the set of nodes that have ended when it starts to work on memory.
class ordering {
public:
  ordering() = default;
  explicit ordering(const graph& g) {
    for (std::uint32_t i = 0; i < g.nodes.size(); ++i) add(g, i);
  }

  /// The next node. Those before it are known, members of a child node right behind it.
  void add(const graph& g, std::uint32_t i) {
    before_.emplace_back();
    const node& n = g.nodes[i];
    if (n.parent != none) join(i, n.parent);
    for (const edge& e : n.after) {
      if (e.how == order::overlaps) continue;
      join(i, e.from);
      insert(i, e.from);
      // A child graph has ended with all that it holds, graphs within it included.
      if (g.nodes[e.from].what != kind::child) continue;
      for (std::uint32_t m = e.from + 1; m < g.nodes.size() && is_within(g, m, e.from); ++m) {
        join(i, m);
        insert(i, m);
      }
    }
  }
  [[nodiscard]] bool precedes(std::uint32_t a, std::uint32_t b) const noexcept {
    const std::vector<std::uint64_t>& all = before_[b];
    return a / 64 < all.size() && ((all[a / 64] >> (a % 64)) & 1) != 0;
  }
  [[nodiscard]] static bool is_within(const graph& g, std::uint32_t member,
                                      std::uint32_t child) noexcept {
    for (std::uint32_t p = g.nodes[member].parent; p != none; p = g.nodes[p].parent)
      if (p == child) return true;
    return false;
  }

private:
  void insert(std::uint32_t i, std::uint32_t a) {
    std::vector<std::uint64_t>& all = before_[i];
    if (all.size() <= a / 64) all.resize(a / 64 + 1);
    all[a / 64] |= std::uint64_t{1} << (a % 64);
  }
  void join(std::uint32_t i, std::uint32_t a) {
    std::vector<std::uint64_t>& all = before_[i];
    const std::vector<std::uint64_t>& more = before_[a];
    if (all.size() < more.size()) all.resize(more.size());
    for (std::size_t k = 0; k < more.size(); ++k) all[k] |= more[k];
  }

  std::vector<std::vector<std::uint64_t>> before_;
};

/// The node whose buffer each node works on; `none` for nodes without one.
[[nodiscard]] inline std::vector<std::uint32_t> owners(const graph& g) {
  std::vector<std::uint32_t> all(g.nodes.size(), none);
  for (std::uint32_t i = 0; i < g.nodes.size(); ++i) {
    const node& n = g.nodes[i];
    if (has_buffer(n.what)) all[i] = n.takes == none ? i : all[n.takes];
  }
  return all;
}

inline constexpr std::size_t most_reads = 40;
inline constexpr std::uint32_t most_bytes = 4u << 20;

/// What a graph breaks of the following, in one line with the node's number; unset if nothing.
///  G1 levels   members of a child node follow it at once; a child node has at least one.
///  G2 edges    lead from a smaller number to a larger one of the same level, each once.
///  G3 reads    the node read has a buffer and precedes the reader; kernels read any memory, copies
///              and to_host exactly one node on the device, to_device at most one and host nodes
///              any number on the host; the others read nothing. Copies are no longer than what
///              they read.
///  G4 takes    the node taken precedes, is on the same side, has a buffer as large, is taken once,
///              and all that read it precede the taker. The taker does not read it.
///  G5 programmatic edges connect kernels that are not cooperative; a kernel either waits or
///              overlaps.
///  G6 sizes    within what builders and kernels expect.
///  G7 capture  captured graphs have neither child nor empty nodes.
///  G8 work     at least one node is an operation (is_operation).
/// So whatever runs at once never touches the same memory, and every order that keeps the edges
/// leaves the same memory behind.
[[nodiscard]] inline std::optional<std::string> flaw(const graph& g) {
  const auto at = [](std::uint32_t i, const std::string& what) {
    return "node " + std::to_string(i) + ": " + what;
  };
  const ordering ordered_by = [&] {
    // Only well-formed edges reach the ordering.
    ordering o;
    graph safe;
    safe.nodes.reserve(g.nodes.size());
    for (std::uint32_t i = 0; i < g.nodes.size(); ++i) {
      node n = g.nodes[i];
      std::erase_if(n.after, [&](const edge& e) { return e.from >= i; });
      if (n.parent != none && n.parent >= i) n.parent = none;
      safe.nodes.push_back(std::move(n));
      o.add(safe, i);
    }
    return o;
  }();
  std::vector<std::uint32_t> taken_by(g.nodes.size(), none);
  if (std::none_of(g.nodes.begin(), g.nodes.end(),
                   [](const node& n) { return is_operation(n.what); }))
    return "no operations, expected at least one";
  for (std::uint32_t i = 0; i < g.nodes.size(); ++i) {
    const node& n = g.nodes[i];
    const bool is_kernel = n.what == kind::kernel;
    if (n.parent != none) {
      if (n.parent >= i || g.nodes[n.parent].what != kind::child)
        return at(i, "in=" + std::to_string(n.parent) + ", expected a child node before it");
      if (n.parent != i - 1 && !ordering::is_within(g, i - 1, n.parent))
        return at(i, "apart from its child node, expected right behind it");
    }
    if (n.what == kind::child && (i + 1 == g.nodes.size() || g.nodes[i + 1].parent != i))
      return at(i, "a child node without members, expected at least one");
    if (g.captured && (n.what == kind::child || n.what == kind::empty))
      return at(i, "of a kind that stream capture does not make");
    bool waits = false;
    bool overlaps = false;
    for (std::size_t k = 0; k < n.after.size(); ++k) {
      const edge& e = n.after[k];
      if (e.from >= i || g.nodes[e.from].parent != n.parent)
        return at(i, "after=" + std::to_string(e.from) +
                         ", expected a node before it on the same level");
      for (std::size_t j = 0; j < k; ++j)
        if (n.after[j].from == e.from) return at(i, "two edges from one node, expected one");
      if (e.how == order::full) continue;
      (e.how == order::waits ? waits : overlaps) = true;
      const node& from = g.nodes[e.from];
      if (!is_kernel || from.what != kind::kernel || n.cooperative || from.cooperative)
        return at(i, "a programmatic edge, expected one between kernels that are not cooperative");
    }
    if (waits && overlaps) return at(i, "a kernel that waits and overlaps, expected one of both");

    const std::size_t needs = n.what == kind::copy || n.what == kind::to_host ? 1 : 0;
    const std::size_t most = is_kernel || n.what == kind::host ? most_reads
                             : n.what == kind::to_device       ? 1
                                                               : needs;
    if (n.reads.size() < needs || n.reads.size() > most)
      return at(i, std::to_string(n.reads.size()) + " reads, expected " + std::to_string(needs) +
                       " to " + std::to_string(most));
    for (const std::uint32_t r : n.reads) {
      const std::string what = "reads=" + std::to_string(r);
      if (r >= i || !has_buffer(g.nodes[r].what) || !ordered_by.precedes(r, i))
        return at(i, what + ", expected a node with a buffer that precedes it");
      const kind k = g.nodes[r].what;
      if ((n.what == kind::copy || n.what == kind::to_host) && !on_device(k))
        return at(i, what + ", expected one on the device");
      if ((n.what == kind::to_device || n.what == kind::host) && !on_host(k))
        return at(i, what + ", expected one on the host");
      if (!is_kernel && n.what != kind::host && n.bytes > g.nodes[r].bytes)
        return at(i, what + ", expected a buffer of " + std::to_string(n.bytes) + " bytes");
    }
    if (n.takes != none) {
      const std::string what = "takes=" + std::to_string(n.takes);
      if (!has_buffer(n.what) || n.takes >= i || !has_buffer(g.nodes[n.takes].what) ||
          on_host(n.what) != on_host(g.nodes[n.takes].what) || !ordered_by.precedes(n.takes, i) ||
          n.bytes > g.nodes[n.takes].bytes)
        return at(i, what + ", expected a node that precedes it with a buffer as large");
      if (taken_by[n.takes] != none) return at(i, what + ", expected one that is taken once");
      if (std::find(n.reads.begin(), n.reads.end(), n.takes) != n.reads.end())
        return at(i, what + ", expected one that it does not read");
      taken_by[n.takes] = i;
    }

    if (has_buffer(n.what) && (n.bytes == 0 || n.bytes > most_bytes))
      return at(i, "bytes=" + std::to_string(n.bytes) + ", expected 1 to 4194304");
    if ((is_kernel || n.what == kind::host) && n.bytes % 4 != 0)
      return at(i, "bytes=" + std::to_string(n.bytes) + ", expected whole words");
    if (n.what == kind::set) {
      const set_shape& s = n.set;
      if ((s.element != 1 && s.element != 2 && s.element != 4) || s.width == 0 || s.height == 0 ||
          (s.height > 1 && (s.pitch % s.element != 0 ||
                            std::uint64_t{s.pitch} < std::uint64_t{s.width} * s.element)) ||
          s.end() > n.bytes)
        return at(i, "a set that does not lie within its buffer");
    }
    if (is_kernel) {
      if (!(n.us >= 0 && n.us <= 1e5)) return at(i, "us, expected 0 to 100000");
      if (n.threads == 0 || n.threads > 1024) return at(i, "threads, expected 1 to 1024");
      if (n.shared > 100) return at(i, "shared, expected 0 to 100");
      if (n.blocks == 0 || n.blocks > 1u << 20 || n.fill > 1000)
        return at(i, "blocks or fill, expected 1 to 1048576 and at most 1000");
      if (n.cluster != 1 && n.cluster != 2 && n.cluster != 4 && n.cluster != 8)
        return at(i, "cluster, expected 1, 2, 4 or 8");
      if (n.fill == 0 && n.blocks % n.cluster != 0)
        return at(i, "blocks, expected a multiple of the cluster");
      if (n.cooperative && (n.cluster != 1 || n.fill > 100))
        return at(i, "a cooperative kernel, expected one without clusters that fits at once");
    }
  }
  for (std::uint32_t i = 0; i < g.nodes.size(); ++i)
    for (const std::uint32_t r : g.nodes[i].reads)
      if (const std::uint32_t t = taken_by[r]; t != none && t != i && !ordered_by.precedes(i, t))
        return at(i, "reads=" + std::to_string(r) + ", expected before node " + std::to_string(t) +
                         " takes it");
  return std::nullopt;
}

} // namespace work_graph
