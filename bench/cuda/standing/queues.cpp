// SPDX-License-Identifier: Apache-2.0
#include "standing/run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>

namespace standing {

using gsched::cuda::check;
using gsched::cuda::driver;

namespace {

constexpr std::size_t others = 32;        ///< streams; the second half has the highest priority
constexpr double start_seconds = 2e-3;    ///< until the parts of a held graph are fetched
constexpr double blocked_seconds = 10e-3; ///< work that takes longer to run counts as blocked

std::vector<graph_kind> all_kinds() {
  using enum node_kind;
  std::vector<graph_kind> all{
      {"kernels alone"},
      {"sets of 4 B", set_4_bytes},
      {"sets of 4 KiB", set_4_kib},
      {"sets of 1 MiB", set_1_mib},
      {"sets of rows", set_rows},
      {"sets by a kernel", set_by_kernel},
      {"copies within the GPU", copy_within},
      {"copies from pinned memory", copy_from_pinned},
      {"copies to pinned memory", copy_to_pinned},
      {"host functions", host_function},
      {"empty nodes", empty},
      {"event records", event_record},
      {"event waits", event_wait},
      {"kernels of high priority", priority},
      {"child graphs", child},
      {"cooperative kernels", cooperative},
      {"clusters", cluster},
      {"programmatic edges", programmatic},
  };
  const auto add = [&](const char* name, node_kind between, gate_way gates) {
    all.push_back({name, between, gates});
  };
  add("in-line gates", none, gate_way::in_line);
  add("in-line gates; sets of 4 KiB", set_4_kib, gate_way::in_line);
  add("wait nodes; pinned memory", none, gate_way::wait_on_host);
  add("wait nodes; device memory", none, gate_way::wait_on_device);
  add("wait nodes; sets of 4 KiB", set_4_kib, gate_way::wait_on_host);
  constexpr std::array forks{"fork of 2", "fork of 4", "fork of 8", "fork of 16", "fork of 32"};
  for (std::size_t i = 0; i < forks.size(); ++i)
    all.push_back({forks[i], none, gate_way::beside, 2, 2U << i, 40});
  return all;
}

bool is_quick(const graph_kind& k) {
  constexpr std::array kept{"kernels alone",  "sets of 4 KiB", "copies within the GPU",
                            "host functions", "in-line gates", "wait nodes; pinned memory",
                            "fork of 8"};
  return std::ranges::find(kept, k.name) != kept.end();
}

std::vector<std::string> cases(const run_options& o) {
  std::vector<std::string> names;
  for (const graph_kind& k : all_kinds())
    if (!o.quick || is_quick(k)) names.emplace_back(k.name);
  return names;
}

/// Graphs of one kind on their own streams, and the streams beside them.
class bed {
public:
  bed(scene& s, const graph_kind& kind) : s_(s), kind_(kind) {
    s_.watch().step("set-up", 20);
    const unsigned flags =
        kind.between == node_kind::priority ? CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY : 0;
    for (std::size_t i = 0; i < scene::most_graphs; ++i) {
      const made_graph made = s.make().make(kind, small_kernels, s.words(i));
      gates_ = made.gates;
      graphs_.push_back({instantiate(made.handle, flags), s.new_stream(false)});
    }
    for (std::size_t i = 0; i < others; ++i)
      others_.push_back({s.make_marker(i), s.new_stream(i >= others / 2)});
    for (const streamed& g : graphs_) launch(g);
    s_.drain();
    for (const streamed& other : others_) launch(other);
    s_.drain();
  }

  [[nodiscard]] unsigned gates() const noexcept { return gates_; }

  /// The time of one graph, with open gates.
  [[nodiscard]] double alone_us() {
    std::vector<double> us;
    for (int i = 0; i < 5; ++i) {
      const double from = experiment::seconds_now();
      launch(graphs_.front());
      s_.drain();
      us.push_back(1e6 * (experiment::seconds_now() - from));
    }
    return experiment::median(us);
  }

  [[nodiscard]] ordered_json measure(std::size_t graphs, unsigned gate) {
    ordered_json out{{"graphs", graphs}, {"gate", gate}};
    std::size_t standing = stand(graphs, gate);
    out["kernels"] = by_priority(run_kernels());
    go_on();
    standing = std::min(standing, stand(graphs, gate));
    out["copies"] = by_priority(run_copies());
    go_on();
    out["standing"] = standing;
    return out;
  }

private:
  struct streamed {
    executable graph;
    cudaStream_t stream;
  };
  void launch(const streamed& g) const {
    check(driver().cuGraphLaunch(g.graph.get(), g.stream), "launch");
  }

  /// The number of held graphs.
  [[nodiscard]] std::size_t stand(std::size_t graphs, unsigned gate) {
    s_.watch().step("launch of the graphs that stand");
    for (std::size_t i = 0; i < graphs; ++i) s_.hold(i, kind_.gates, gate);
    if (kind_.gates == gate_way::wait_on_device) s_.arm_release();
    for (std::size_t i = 0; i < graphs; ++i) launch(graphs_[i]);
    std::size_t standing = 0;
    if (kind_.gates == gate_way::beside || kind_.gates == gate_way::in_line) {
      const auto count = [&] {
        standing = 0;
        for (std::size_t i = 0; i < graphs; ++i) standing += s_.stands(i) ? 1U : 0U;
        return standing == graphs;
      };
      static_cast<void>(holds_within(20e-3, count));
      pass(start_seconds);
    } else { // the graph has not ended in time: it is held
      pass(3 * start_seconds);
      for (std::size_t i = 0; i < graphs; ++i)
        standing += cudaStreamQuery(graphs_[i].stream) == cudaErrorNotReady ? 1U : 0U;
    }
    return standing;
  }
  void go_on() {
    s_.release();
    s_.drain();
  }

  using run = std::array<bool, others>;
  [[nodiscard]] run run_kernels() {
    s_.watch().step("kernels of other streams");
    s_.clear_marks();
    for (const streamed& other : others_) launch(other);
    return ended([&](std::size_t i) { return s_.marked(i); });
  }
  [[nodiscard]] run run_copies() {
    s_.watch().step("copies of other streams");
    constexpr std::size_t bytes = 4096;
    for (std::size_t i = 0; i < others; ++i)
      check(cudaMemcpyAsync(reinterpret_cast<void*>(s_.memory().device + i * bytes),
                            s_.memory().pinned, bytes, cudaMemcpyHostToDevice, others_[i].stream),
            "copy");
    return ended([&](std::size_t i) { return cudaStreamQuery(others_[i].stream) == cudaSuccess; });
  }
  template <class Ended>
  [[nodiscard]] static run ended(Ended has_ended) {
    run out{};
    static_cast<void>(holds_within(blocked_seconds, [&] {
      for (std::size_t i = 0; i < others; ++i) out[i] = out[i] || has_ended(i);
      return std::ranges::all_of(out, [](bool b) { return b; });
    }));
    return out;
  }
  [[nodiscard]] static ordered_json by_priority(const run& r) {
    const auto half = r.begin() + others / 2;
    return {{"default_priority", std::count(r.begin(), half, true)},
            {"highest_priority", std::count(half, r.end(), true)}};
  }

  scene& s_;
  const graph_kind& kind_;
  std::vector<streamed> graphs_, others_;
  unsigned gates_ = 0;
};

ordered_json measure(scene& s, const std::string& which, const run_options& o) {
  const std::vector<graph_kind> all = all_kinds();
  const auto kind = std::ranges::find(all, which, &graph_kind::name);
  int clusters = 0;
  check(cudaDeviceGetAttribute(&clusters, cudaDevAttrClusterLaunch, o.gpu), "attribute");
  if (kind->between == node_kind::cluster && clusters == 0)
    return {{"left_out", "the GPU has no clusters"}};
  bed b(s, *kind);
  ordered_json out{{"gates", b.gates()}, {"alone_us", b.alone_us()}};
  for (const bool late : {false, true})
    for (const std::size_t graphs : {std::size_t{1}, scene::most_graphs}) {
      ordered_json cell = b.measure(graphs, late ? b.gates() * 2 / 3 : 2);
      cell["late"] = late;
      out["cells"].push_back(std::move(cell));
    }
  return out;
}

constexpr int name_width = 30;
constexpr int cell_width = 9;
constexpr std::array columns{"early, 1", "early, 4", "late, 1", "late, 4"};

void print_head(const run_options& o) {
  fmt::print("queues: of {} further streams, how many run a kernel (and a copy from pinned memory, "
             "where it differs)\nwhile one or four graphs stand at an early or a late gate; a kind "
             "names the nodes behind every nine kernels\n",
             others);
  fmt::print("{:<{}}", "connections", name_width);
  for (const unsigned c : o.connections)
    fmt::print("  {:<{}}", c, static_cast<int>(columns.size()) * (cell_width + 1) - 1);
  fmt::print("\n{:<{}}", "kind of graph", name_width);
  for (std::size_t c = 0; c < o.connections.size(); ++c) {
    fmt::print(" ");
    for (const char* column : columns) fmt::print(" {:>{}}", column, cell_width);
  }
  fmt::print("\n");
}

std::size_t both(const ordered_json& r) {
  return r["default_priority"].get<std::size_t>() + r["highest_priority"].get<std::size_t>();
}

std::string text_of(const ordered_json& cell) {
  const std::size_t kernels = both(cell["kernels"]);
  const std::size_t copies = both(cell["copies"]);
  std::string text = fmt::format("{}", kernels);
  if (copies != kernels) text += fmt::format("/{}", copies);
  if (cell["standing"] != cell["graphs"])
    text += fmt::format(" ({})", cell["standing"].get<std::size_t>());
  return text;
}

void print(const ordered_json& figures, const run_options&) {
  fmt::print("{:<{}}", figures[0]["case"].get<std::string>(), name_width);
  bool by_priority = false;
  bool fewer = false;
  for (const ordered_json& f : figures) {
    fmt::print(" ");
    if (!f.contains("cells")) {
      const char* why = f.contains("hangs") ? "hangs" : f.contains("left_out") ? "-" : "error";
      for (std::size_t i = 0; i < columns.size(); ++i) fmt::print(" {:>{}}", why, cell_width);
      continue;
    }
    for (const ordered_json& cell : f["cells"]) {
      fmt::print(" {:>{}}", text_of(cell), cell_width);
      for (const char* what : {"kernels", "copies"})
        by_priority |= cell[what]["default_priority"] != cell[what]["highest_priority"];
      fewer |= cell["standing"] != cell["graphs"];
    }
  }
  if (by_priority) fmt::print("  differs by priority");
  if (fewer) fmt::print("  (in brackets: so many stand)");
  fmt::print("\n");
}

} // namespace

part queues_part() { return {"queues", true, cases, measure, print_head, print}; }

} // namespace standing
