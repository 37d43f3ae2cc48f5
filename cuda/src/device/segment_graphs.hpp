// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "device/device_segment.hpp"
#include "graph/end_words.hpp"
#include "preempt/leaving.hpp"

#include <gsched/cuda/device.hpp>
#include <gsched/cuda/driver.hpp>
#include <gsched/cuda/error.hpp>
#include <gsched/cuda/notification_ring.hpp>
#include <gsched/cuda/program.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <unordered_map>
#include <vector>

namespace gsched::cuda {

/// One instantiated graph of a range, or for direct launches the slots of its kernels alone.
struct segment_graph {
  CUgraphExec exec = nullptr;
  /// Of its launches, told by its last node. Null for a range within a program on a lane that has
  /// the whole GPU and does not yield, of kernels that do not leave: an event behind it tells.
  end_word* ends = nullptr;
  std::vector<gate> gates;        ///< in order
  std::vector<launch_slot> slots; ///< of its instrumented kernels, in order
  std::vector<report> reports;    ///< of these
  std::uint32_t in_flight = 0;
  std::uint32_t launches = 0; ///< that report
  graph_queue flights;        ///< those that report

  bool lost = false; ///< a launch of it hangs, so no other may follow

  /// Asks its gates to hold, or to pass.
  void ask(const gate_order& what) noexcept {
    if (!gates.empty())
      sync::atomic_ref<std::uint64_t>(ends->gates->order).store(what.word(), sync::relaxed);
  }
  /// Before a launch: its gates pass, and no lease of it has run out.
  void let_pass() noexcept {
    if (gates.empty()) return;
    sync::atomic_ref<std::uint32_t>(ends->gates->expired).store(0, sync::relaxed);
    ask({});
  }
  /// Which of two gates at most stand now.
  [[nodiscard]] gate_told stands(unsigned which) const noexcept {
    return told_by(
        sync::atomic_ref<std::uint64_t>(ends->gates->standing[which]).load(sync::relaxed));
  }
  /// Whether the lease of a gate that stood for this turn has run out.
  [[nodiscard]] bool has_expired(std::uint32_t turn) const noexcept {
    return sync::atomic_ref<std::uint32_t>(ends->gates->expired).load(sync::relaxed) == turn;
  }
};

inline bool device_segment::has_gates() const noexcept {
  return graph != nullptr && !graph->gates.empty();
}

/// As many graphs of one range as can be in flight at once. CUDA runs the launches of one graph in
/// turn, whatever streams they are on.
struct range_graphs {
  std::uint32_t first = 0;
  std::uint32_t last = 0;
  std::uint64_t words = 0;  ///< of one launch, in the notification ring
  sm_count needs_at_once{}; ///< program::needs_at_once
  std::vector<segment_graph> copies;

  /// One that is not in flight, or else the one with the fewest launches ahead. A graph with gates
  /// has one launch in flight, as its gates look at one word and its end is another: so there may
  /// be none.
  [[nodiscard]] segment_graph* best() noexcept {
    segment_graph* least = nullptr;
    for (segment_graph& g : copies) {
      if (g.lost) continue;
      if (g.in_flight > 0 && !g.gates.empty()) continue;
      if (least == nullptr || g.in_flight < least->in_flight) least = &g;
    }
    return least;
  }
};

/// Where graphs run: each partition needs its own, as a kernel node runs on the SMs of the context
/// it was made for, lanes with a priority need some that take the stream's priority and not their
/// nodes', and lanes that yield need gates.
struct graph_place {
  CUstream upload = nullptr;   ///< a stream of that partition, for uploads alone
  CUcontext context = nullptr; ///< of that partition
  sm_count sms{};              ///< there
  bool own = false;            ///< a partition, and not all SMs
  bool node_priorities = true;
  bool gated = false;
  duration least_operation{}; ///< graphs are foreseen for programs with a kernel of at least that
};

enum class graph_kind : std::uint8_t {
  plain,
  reporting,
  direct ///< reporting, launched kernel by kernel: slots and no graph
};

/// The driver refused a segment's graph.
struct refused_graph : error {
  refused_graph(std::error_code by, const std::string& what)
      : error(by == code_of(cudaErrorMemoryAllocation) ? errc::out_of_memory : errc::device_failed,
              what + ": " + by.message()),
        why(by) {}
  std::error_code why;
};

/// What a device keeps of one program.
struct loaded_program {
  using built = std::unique_ptr<range_graphs>;
  struct key {
    std::uint32_t first, last, place;
    graph_kind kind;
    bool operator==(const key&) const noexcept = default;
  };
  struct key_hash {
    std::size_t operator()(const key& k) const noexcept {
      const std::uint64_t range = std::uint64_t{k.first} << 32 | k.last;
      const std::uint64_t rest = std::uint64_t{k.place} << 2 | static_cast<std::uint64_t>(k.kind);
      return static_cast<std::size_t>((range * 0x9e37'79b9'7f4a'7c15) ^
                                      (rest * 0xc2b2'ae3d'27d4'eb4f));
    }
  };
  /// The foreseen ranges of a program in one place, by piece and level.
  using table = std::vector<built>;

  gsched::program* host = nullptr;
  std::vector<std::uint32_t> piece_at;        ///< by operation; no_piece within one
  std::vector<std::uint32_t> reporting_until; ///< instrumented kernels before an operation
  std::vector<table> foreseen;                ///< by place and kind, plain or reporting
  std::unordered_map<key, built, key_hash> others;
  std::unique_ptr<leaving_program> leaving; ///< of one that leaves
  program_memory memory{};
  std::uint64_t gates = 0; ///< in all its graphs
  /// It did not run beside gates, which no fact of its kernels explains: they wait for one another
  /// in a way of their own, or are in clusters.
  bool needs_every_sm = false;
  bool lost = false; ///< a launch of it hangs

  [[nodiscard]] std::uint32_t places() const noexcept {
    return static_cast<std::uint32_t>(foreseen.size() / 2);
  }
};

/// The graphs of all loaded programs.
///
/// Cost     find is O(1) and allocates nothing; everything else is set-up.
/// Threads  build, and destroy of what build or remove gave: any, at any time; everything else: the
///          device's owner. The owner alone has launch slots: build takes none, and remove gives
///          them back.
class segment_graphs {
public:
  /// Called after each graph that was built, with the time for which the driver was busy with it.
  using pacing = std::function<void(std::chrono::nanoseconds)>;

  segment_graphs(const driver_functions& cu, notification_ring& ring, end_words& ends,
                 const architecture_limits& sm, const device_options& how)
      : cu_(cu), ring_(ring), ends_(ends), sm_(sm), how_(how) {}
  segment_graphs(const segment_graphs&) = delete;
  segment_graphs& operator=(const segment_graphs&) = delete;
  ~segment_graphs();

  /// Builds the graphs of all programs for it. Changes nothing if it throws.
  [[nodiscard]] std::uint32_t add_place(const graph_place& p);

  /// Aligns a program and builds its graphs for all places that there are. What was built is
  /// destroyed if it throws.
  [[nodiscard]] std::unique_ptr<loaded_program> build(gsched::program& p, const pacing& pace = {});
  /// Takes what was built; first builds what it lacks: for places that were added since, and on a
  /// device whose kernels report.
  [[nodiscard]] program_id add(std::unique_ptr<loaded_program> l);
  /// Nothing of the program is in flight. Its id is not used again, and its launch slots are given
  /// back, unless a launch of it hangs.
  [[nodiscard]] std::unique_ptr<loaded_program> remove(program_id id) noexcept;
  /// Destroys the graphs of a program that is not loaded.
  void destroy(std::unique_ptr<loaded_program> l) noexcept;

  [[nodiscard]] bool has(program_id id) const noexcept {
    return index(id) < programs_.size() && programs_[index(id)] != nullptr;
  }
  [[nodiscard]] bool has(program_id id, std::size_t first, std::size_t count) const noexcept {
    return has(id) && count <= programs_[index(id)]->host->size() &&
           first <= programs_[index(id)]->host->size() - count;
  }
  /// Whether a kernel of the range is instrumented. The range is one of the program's.
  [[nodiscard]] bool reports(program_id id, std::size_t first, std::size_t last) const noexcept {
    const auto& until = programs_[index(id)]->reporting_until;
    return until[last] > until[first];
  }
  /// Null if it was not built.
  [[nodiscard]] range_graphs* find(program_id id, std::uint32_t first, std::uint32_t last,
                                   std::uint32_t place, graph_kind kind) noexcept;
  /// Builds the graphs of a range for one place or all, as far as they are not there.
  void prepare(program_id id, std::uint32_t first, std::uint32_t last,
               std::optional<std::uint32_t> one);
  [[nodiscard]] range_graphs* build_late(program_id id, std::uint32_t first, std::uint32_t last,
                                         std::uint32_t place, graph_kind kind);

  /// Whose words carry this slot.
  struct node {
    segment_graph* graph = nullptr;
    std::uint32_t operation = 0; ///< in its range
    std::uint32_t base = 0;      ///< the slot's replay count at the graph's first launch
  };
  [[nodiscard]] node node_of(launch_slot s) const noexcept {
    const auto i = static_cast<std::size_t>(s);
    return i < nodes_.size() ? nodes_[i] : node{};
  }
  /// A launch of a graph counts for its slots, in the order of the launches. Returns which launch
  /// of the graph it is, as replay_of gives it for its words.
  [[nodiscard]] std::uint32_t count_launch(segment_graph& g) noexcept {
    for (const launch_slot s : g.slots) {
      const std::uint32_t instance = ring_.count_launch(s);
      if (g.launches == 0) nodes_[static_cast<std::size_t>(s)].base = instance & replay_mask;
    }
    return g.launches++ & replay_mask;
  }
  [[nodiscard]] static std::uint32_t replay_of(const node& n, std::uint32_t instance) noexcept {
    return (instance - n.base) & replay_mask;
  }
  /// Null for a program that does not leave.
  [[nodiscard]] leaving_program* leaving_of(program_id id) noexcept {
    return has(id) ? programs_[index(id)]->leaving.get() : nullptr;
  }
  [[nodiscard]] loaded_program& loaded(program_id id) noexcept { return *programs_[index(id)]; }
  [[nodiscard]] gsched::program& host(program_id id) noexcept {
    return *programs_[index(id)]->host;
  }
  [[nodiscard]] std::optional<program_id> find_program(const gsched::program& p) const noexcept;
  [[nodiscard]] program_memory memory_of(const gsched::program& p) const noexcept;
  [[nodiscard]] std::uint32_t programs() const noexcept {
    return static_cast<std::uint32_t>(programs_.size());
  }
  /// In the graphs of all loaded programs.
  [[nodiscard]] std::uint64_t gates() const noexcept;
  /// Destroys nothing from now on: for a GPU that does not answer any more.
  void leave_behind() noexcept { left_ = true; }

private:
  using built = loaded_program::built;
  using key = loaded_program::key;
  using table = loaded_program::table;
  static constexpr std::uint32_t replay_mask = (1u << notification_ring::replay_bits) - 1;
  static constexpr std::uint32_t no_piece = 0xffff'ffff;

  /// One program's graphs while they are built.
  struct building {
    loaded_program& of;
    const std::vector<graph_place>& places;
    const pacing* pace = nullptr;
  };
  [[nodiscard]] built build_range(const building& b, const key& k) const;
  /// Blocks a word for the kernels of a range; 0 leaves it to each launch.
  [[nodiscard]] std::uint32_t group_for(const loaded_program& l, const key& k) const;
  void fill(segment_graph& g, const program& p, const building& b, const key& k,
            std::uint64_t& nodes) const;
  void take_slots(segment_graph& g, const loaded_program& l, const key& k) const;
  [[nodiscard]] std::unique_ptr<leaving_program> make_leaving(const program& p) const;
  /// The parameters of a range's kernels; none for a program that does not leave.
  [[nodiscard]] std::vector<preemption> preemptions(const program& p, const loaded_program& l,
                                                    const key& k) const;
  /// Of a program that leaves: from each operation to the end of its piece.
  void foresee_tails(const building& b, std::uint32_t place) const;
  /// Appends the program's tables for a place; what was built for it is destroyed if it throws.
  void foresee(const building& b, std::uint32_t place) const;
  [[nodiscard]] range_graphs* find_in(const table& t, const loaded_program& l, std::uint32_t first,
                                      std::uint32_t last) const noexcept;
  void take_apart(range_graphs& r) const noexcept;
  /// On the owner's thread. A second time it does nothing.
  void give_back_slots(range_graphs& r) const noexcept;
  /// Of a place that is given up, the last one.
  void forget_place(loaded_program& l, std::uint32_t place) const noexcept;
  [[nodiscard]] std::vector<graph_place> places() const;
  static void wait_for_uploads(const std::vector<graph_place>& to);

  const driver_functions& cu_;
  notification_ring& ring_;
  end_words& ends_;
  const architecture_limits& sm_;
  const device_options& how_;
  mutable std::mutex places_guard_;
  std::vector<graph_place> places_;
  std::vector<std::unique_ptr<loaded_program>> programs_; ///< null: removed
  mutable std::vector<node> nodes_;
  bool left_ = false;
};

inline std::uint32_t segment_graphs::group_for(const loaded_program& l, const key& k) const {
  if (how_.group_blocks != 0) return how_.group_blocks;
  std::uint64_t words = 0;
  for (std::uint32_t i = k.first; i < k.last; ++i) {
    if (l.reporting_until[i + 1] == l.reporting_until[i]) continue;
    const std::uint64_t blocks = l.host->operations()[i].launch.blocks();
    words += automatic_group(blocks) == 1 ? 2 * blocks : gsched::words_of(blocks);
  }
  // Two such segments have room in the ring, or larger groups are worth their cost.
  return words <= ring_.reader().capacity() / 2 ? 0 : max_group_blocks;
}

} // namespace gsched::cuda
