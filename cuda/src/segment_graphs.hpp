// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "device_flight.hpp"
#include "end_words.hpp"
#include "leaving.hpp"

#include <gsched/cuda/device.hpp>
#include <gsched/cuda/driver.hpp>
#include <gsched/cuda/notification_ring.hpp>
#include <gsched/cuda/program.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <unordered_map>
#include <vector>

namespace gsched::cuda {

/// One instantiated graph of a range, or for direct launches the slots of its kernels alone.
struct segment_graph {
  CUgraphExec exec = nullptr;
  end_word* ends = nullptr;       ///< of its launches, told by its last node
  std::vector<gate> gates;        ///< in order
  std::vector<launch_slot> slots; ///< of its instrumented kernels, in order
  std::vector<report> reports;    ///< of these
  std::uint32_t in_flight = 0;
  lane_id lane{};             ///< of those in flight, for a graph with gates
  std::uint32_t launches = 0; ///< that report
  graph_queue flights;        ///< those that report

  /// 0: its gates let everything pass.
  void set_hold(std::uint32_t turn) noexcept {
    if (!gates.empty())
      sync::atomic_ref<std::uint32_t>(ends->gates->hold).store(turn, sync::relaxed);
  }
  /// Which of two gates at most stand now.
  [[nodiscard]] gate_told stands(unsigned which) const noexcept {
    return told_by(
        sync::atomic_ref<std::uint64_t>(ends->gates->standing[which]).load(sync::relaxed));
  }
};

inline bool flight::has_gates() const noexcept { return graph != nullptr && !graph->gates.empty(); }

/// As many graphs of one range as can be in flight at once. CUDA runs the launches of one graph in
/// turn, whatever streams they are on.
struct range_graphs {
  std::uint32_t first = 0;
  std::uint32_t last = 0;
  std::uint64_t words = 0; ///< of one launch, in the notification ring
  std::vector<segment_graph> copies;

  /// One that is not in flight, or else the one with the fewest launches ahead. A graph with gates
  /// is one lane's as long as it is in flight, as all its launches look at one word: so there may
  /// be none.
  [[nodiscard]] segment_graph* best(lane_id lane) noexcept {
    segment_graph* least = nullptr;
    for (segment_graph& g : copies) {
      if (g.in_flight > 0 && !g.gates.empty() && g.lane != lane) continue;
      if (least == nullptr || g.in_flight < least->in_flight) least = &g;
    }
    return least;
  }
};

/// Where graphs run: each partition needs its own, as a kernel node runs on the SMs of the context
/// it was made for, lanes with a priority need some that take the stream's priority and not their
/// nodes', and lanes that yield need gates.
struct graph_place {
  CUstream upload = nullptr;   ///< a stream of that partition
  CUcontext context = nullptr; ///< of that partition
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

/// The graphs of all loaded programs.
///
/// Cost     find is O(1) and allocates nothing; everything else is set-up.
class segment_graphs {
public:
  segment_graphs(const driver_functions& cu, notification_ring& ring, end_words& ends,
                 const device_options& how)
      : cu_(cu), ring_(ring), ends_(ends), how_(how) {}
  segment_graphs(const segment_graphs&) = delete;
  segment_graphs& operator=(const segment_graphs&) = delete;
  ~segment_graphs();

  /// Builds the graphs of all programs for it. Changes nothing if it throws.
  [[nodiscard]] std::uint32_t add_place(const graph_place& p);
  /// Aligns a program and builds its graphs for all places. Changes nothing if it throws, but the
  /// alignment.
  [[nodiscard]] program_id add(gsched::program& p);

  [[nodiscard]] bool has(program_id id, std::size_t first, std::size_t count) const noexcept {
    return index(id) < programs_.size() && count <= programs_[index(id)]->host->size() &&
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
    return programs_[index(id)]->leaving.get();
  }
  [[nodiscard]] gsched::program& host(program_id id) noexcept {
    return *programs_[index(id)]->host;
  }
  [[nodiscard]] program* find_program(const gsched::program& p) const noexcept;
  [[nodiscard]] program_memory memory_of(const gsched::program& p) const noexcept;
  /// What the driver said when building threw; unset where something else did.
  [[nodiscard]] std::error_code refusal() const noexcept { return refusal_; }
  [[nodiscard]] std::uint32_t programs() const noexcept {
    return static_cast<std::uint32_t>(programs_.size());
  }
  [[nodiscard]] std::uint64_t gates() const noexcept { return gates_; }
  /// Destroys nothing from now on: for a GPU that does not answer any more.
  void leave_behind() noexcept { left_ = true; }

private:
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
  struct loaded {
    gsched::program* host = nullptr;
    std::vector<std::uint32_t> piece_at;        ///< by operation; no_piece within one
    std::vector<std::uint32_t> reporting_until; ///< instrumented kernels before an operation
    std::vector<table> foreseen;                ///< by place and kind, plain or reporting
    std::unordered_map<key, built, key_hash> others;
    std::unique_ptr<leaving_program> leaving; ///< of one that leaves
    program_memory memory{};
  };
  static constexpr std::uint32_t replay_mask = (1u << notification_ring::replay_bits) - 1;
  static constexpr std::uint32_t no_piece = 0xffff'ffff;

  [[nodiscard]] built build(loaded& l, const key& k, std::uint64_t& nodes);
  /// Blocks a word for the kernels of a range; 0 leaves it to each launch.
  [[nodiscard]] std::uint32_t group_for(const loaded& l, const key& k);
  void fill(segment_graph& g, const program& p, const loaded& l, const key& k,
            std::uint64_t& nodes);
  void take_slots(segment_graph& g, const loaded& l, const key& k);
  [[nodiscard]] std::unique_ptr<leaving_program> make_leaving(const program& p);
  /// The parameters of a range's kernels; none for a program that does not leave.
  [[nodiscard]] std::vector<preemption> preemptions(const program& p, const loaded& l,
                                                    const key& k) const;
  /// Of a program that leaves: from each operation to the end of its piece.
  void foresee_tails(loaded& l, std::uint32_t place, program_memory& costs);
  /// The program's tables for a place.
  [[nodiscard]] std::vector<table> foresee(loaded& l, std::uint32_t place, program_memory& costs);
  [[nodiscard]] range_graphs* find_in(const table& t, const loaded& l, std::uint32_t first,
                                      std::uint32_t last) const noexcept;
  void take_apart(range_graphs& r) noexcept;
  void take_apart(std::vector<table>& tables) noexcept;
  /// Those of a place that is given up.
  void forget_others(loaded& l, std::uint32_t place) noexcept;
  [[nodiscard]] std::uint64_t free_memory() const noexcept;

  const driver_functions& cu_;
  notification_ring& ring_;
  end_words& ends_;
  const device_options& how_;
  std::vector<graph_place> places_;
  std::vector<std::unique_ptr<loaded>> programs_;
  std::vector<node> nodes_;
  std::error_code refusal_{};
  std::uint64_t gates_ = 0; ///< in all graphs that are there
  bool left_ = false;
};

inline std::uint32_t segment_graphs::group_for(const loaded& l, const key& k) {
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
