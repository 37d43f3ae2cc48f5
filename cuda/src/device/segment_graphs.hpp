// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "device/device_segment.hpp"
#include "graph/end/end_words.hpp"
#include "preempt/preemptible_program.hpp"

#include <gsched/cuda/device.hpp>
#include <gsched/cuda/driver.hpp>
#include <gsched/cuda/error.hpp>
#include <gsched/cuda/notify/notification_ring.hpp>
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

/// An instantiated graph of a range; for direct launches only the launch slots of its kernels.
struct segment_graph {
  CUgraphExec exec = nullptr;
  /// The end word that its last node sets. Null for a range inside a program, not preemptible, on a
  /// lane that has the whole GPU and does not yield: an event behind the launch is used instead.
  end_word* ends = nullptr;
  std::vector<gate> gates;        ///< in order
  std::vector<launch_slot> slots; ///< of its instrumented kernels, in order
  std::vector<report> reports;    ///< of these slots
  std::uint32_t in_flight = 0;
  std::uint32_t launches = 0; ///< launches that report
  graph_queue flights;        ///< segments in flight that report

  bool lost = false; ///< a launch of it hangs, so it is never launched again

  /// Orders its gates to hold or to pass.
  void set_order(const gate_order& what) noexcept {
    if (!gates.empty())
      sync::atomic_ref<std::uint64_t>(ends->gates->order).store(what.word(), sync::relaxed);
  }
  /// Before a launch: opens the gates and clears the expired lease.
  void let_pass() noexcept {
    if (gates.empty()) return;
    sync::atomic_ref<std::uint32_t>(ends->gates->expired).store(0, sync::relaxed);
    set_order({});
  }
  /// The state of one of the at most two closed gates.
  [[nodiscard]] gate_state closed_gate(unsigned which) const noexcept {
    return gate_state_of(
        sync::atomic_ref<std::uint64_t>(ends->gates->closed[which]).load(sync::relaxed));
  }
  /// Whether the lease of a gate that was closed for this yield generation has expired.
  [[nodiscard]] bool has_expired(std::uint32_t turn) const noexcept {
    return sync::atomic_ref<std::uint32_t>(ends->gates->expired).load(sync::relaxed) == turn;
  }
};

inline bool device_segment::has_gates() const noexcept {
  return graph != nullptr && !graph->gates.empty();
}

/// The graphs of one range: as many as can be in flight at once. CUDA runs the launches of one
/// graph in order, on any streams.
struct range_graphs {
  std::uint32_t first = 0;
  std::uint32_t last = 0;
  std::uint64_t words = 0;  ///< of one launch, in the notification ring
  sm_count needs_at_once{}; ///< program::needs_at_once
  std::vector<segment_graph> copies;

  /// A graph that is not in flight, else the one with the fewest launches in flight. A graph with
  /// gates has at most one launch in flight, because its gates and its end use one word each; so
  /// the result may be null.
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

/// Where graphs run. Partitions need their own graphs, because a kernel node runs on the SMs of its
/// context. Lanes with a priority need graphs that use the stream's priority instead of their
/// nodes' priorities, and lanes that yield need gates.
struct graph_place {
  CUstream upload = nullptr;   ///< a stream of that partition, for uploads only
  CUcontext context = nullptr; ///< of that partition
  sm_count sms{};              ///< number of SMs there
  bool own = false;            ///< a partition, not all SMs
  bool node_priorities = true;
  bool gated = false;
  duration least_operation{}; ///< build only programs with a kernel of at least this time
};

enum class graph_kind : std::uint8_t {
  plain,
  reporting,
  direct ///< reporting, launched kernel by kernel: slots without a graph
};

/// Thrown if the driver refuses the graph of a segment.
struct refused_graph : error {
  refused_graph(std::error_code by, const std::string& what)
      : error(by == code_of(cudaErrorMemoryAllocation) ? errc::out_of_memory : errc::device_failed,
              what + ": " + by.message()),
        why(by) {}
  std::error_code why;
};

/// The state that a device keeps for one program.
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
  /// The foreseen ranges of a program in one place, by grain and level.
  using table = std::vector<built>;

  gsched::program* host = nullptr;
  std::vector<std::uint32_t> grain_at;        ///< by operation: the grain that begins there
  std::vector<std::uint32_t> reporting_until; ///< by operation: instrumented kernels before it
  std::vector<table> foreseen;                ///< by place and kind (plain, reporting)
  std::unordered_map<key, built, key_hash> others;
  std::unique_ptr<preemptible_program> preemptible; ///< of a preemptible program
  program_memory memory{};
  std::uint64_t gates = 0; ///< of all its graphs
  /// The program did not run beside closed gates, and no fact of its kernels explains why: they
  /// wait for each other in a way of their own, or are in clusters.
  bool needs_every_sm = false;
  bool lost = false; ///< a launch of it hangs

  [[nodiscard]] std::uint32_t places() const noexcept {
    return static_cast<std::uint32_t>(foreseen.size() / 2);
  }
};

/// The graphs of all loaded programs.
///
/// Cost     find is O(1) and does not allocate; everything else is set-up.
/// Threads  build, and destroy of the results of build and remove: any, at any time. Everything
///          else: the device's owner. Only the owner handles launch slots: build takes none, and
///          remove returns them.
class segment_graphs {
public:
  /// Called after each graph is built, with the time for which it kept the driver busy.
  using pacing = std::function<void(std::chrono::nanoseconds)>;

  segment_graphs(const driver_functions& cu, notification_ring& ring, end_words& ends,
                 const architecture_limits& sm, const device_options& how)
      : cu_(cu), ring_(ring), ends_(ends), sm_(sm), how_(how) {}
  segment_graphs(const segment_graphs&) = delete;
  segment_graphs& operator=(const segment_graphs&) = delete;
  ~segment_graphs();

  /// Builds the graphs of all programs for a place. No effect if it throws.
  [[nodiscard]] std::uint32_t add_place(const graph_place& p);

  /// Divides a program into grains and builds its graphs for all places. If it throws, the graphs
  /// are destroyed.
  [[nodiscard]] std::unique_ptr<loaded_program> build(gsched::program& p, const pacing& pace = {});
  /// Adds a built program. First builds missing graphs: for places added since, and on a device
  /// whose kernels report.
  [[nodiscard]] program_id add(std::unique_ptr<loaded_program> l);
  /// Removes a program of which nothing is in flight. Its id is not reused. Its launch slots are
  /// returned unless a launch of it hangs.
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
  /// Whether a kernel of the range is instrumented. The range must be valid.
  [[nodiscard]] bool reports(program_id id, std::size_t first, std::size_t last) const noexcept {
    const auto& until = programs_[index(id)]->reporting_until;
    return until[last] > until[first];
  }
  /// Null if the range was not built.
  [[nodiscard]] range_graphs* find(program_id id, std::uint32_t first, std::uint32_t last,
                                   std::uint32_t place, graph_kind kind) noexcept;
  /// Builds the missing graphs of a range, for one place or for all.
  void prepare(program_id id, std::uint32_t first, std::uint32_t last,
               std::optional<std::uint32_t> one);
  [[nodiscard]] range_graphs* build_late(program_id id, std::uint32_t first, std::uint32_t last,
                                         std::uint32_t place, graph_kind kind);

  /// The kernel node whose words carry a launch slot.
  struct node {
    segment_graph* graph = nullptr;
    std::uint32_t operation = 0; ///< within its range
    std::uint32_t base = 0;      ///< replay count of the slot at the graph's first launch
  };
  [[nodiscard]] node node_of(launch_slot s) const noexcept {
    const auto i = static_cast<std::size_t>(s);
    return i < nodes_.size() ? nodes_[i] : node{};
  }
  /// Counts a launch of a graph for its slots, in launch order. Returns the number of the launch,
  /// which replay_of returns for its words.
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
  /// Null for a program that is not preemptible.
  [[nodiscard]] preemptible_program* preemptible_of(program_id id) noexcept {
    return has(id) ? programs_[index(id)]->preemptible.get() : nullptr;
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
  /// The gates of all loaded programs' graphs.
  [[nodiscard]] std::uint64_t gates() const noexcept;
  /// Disables all destruction from now on: for a GPU that does not respond.
  void abandon() noexcept { abandoned_ = true; }

private:
  using built = loaded_program::built;
  using key = loaded_program::key;
  using table = loaded_program::table;
  static constexpr std::uint32_t replay_mask = (1u << notification_ring::replay_bits) - 1;
  static constexpr std::uint32_t no_grain = 0xffff'ffff;

  /// A program whose graphs are being built.
  struct building {
    loaded_program& of;
    const std::vector<graph_place>& places;
    const pacing* pace = nullptr;
  };
  [[nodiscard]] built build_range(const building& b, const key& k) const;
  /// The group size for the kernels of a range; 0: automatic for each launch.
  [[nodiscard]] std::uint32_t group_for(const loaded_program& l, const key& k) const;
  void fill(segment_graph& g, const program& p, const building& b, const key& k,
            std::uint64_t& nodes) const;
  void take_slots(segment_graph& g, const loaded_program& l, const key& k) const;
  [[nodiscard]] std::unique_ptr<preemptible_program> make_preemptible(const program& p) const;
  /// The preemption parameters of a range's kernels; none for a program that is not preemptible.
  [[nodiscard]] std::vector<preemption> preemptions(const program& p, const loaded_program& l,
                                                    const key& k) const;
  /// For a preemptible program: builds the ranges from each operation to the end of its grain.
  void foresee_tails(const building& b, std::uint32_t place) const;
  /// Appends the program's tables for a place. If it throws, the graphs of the place are destroyed.
  void foresee(const building& b, std::uint32_t place) const;
  [[nodiscard]] range_graphs* find_in(const table& t, const loaded_program& l, std::uint32_t first,
                                      std::uint32_t last) const noexcept;
  void take_apart(range_graphs& r) const noexcept;
  /// Runs on the owner's thread. A second call has no effect.
  void give_back_slots(range_graphs& r) const noexcept;
  /// Removes the last place of a program.
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
  bool abandoned_ = false;
};

inline std::uint32_t segment_graphs::group_for(const loaded_program& l, const key& k) const {
  if (how_.group_blocks != 0) return how_.group_blocks;
  std::uint64_t words = 0;
  for (std::uint32_t i = k.first; i < k.last; ++i) {
    if (l.reporting_until[i + 1] == l.reporting_until[i]) continue;
    const std::uint64_t blocks = l.host->operations()[i].launch.blocks();
    words += automatic_group(blocks) == 1 ? 2 * blocks : gsched::words_of(blocks);
  }
  // Single-block groups if the ring holds two such segments; else larger groups are worth their
  // cost.
  return words <= ring_.reader().capacity() / 2 ? 0 : max_group_blocks;
}

} // namespace gsched::cuda
