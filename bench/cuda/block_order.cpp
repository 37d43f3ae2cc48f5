// SPDX-License-Identifier: Apache-2.0
// Where and when the GPU places blocks, which the law of contention and the simulator assume:
// whether a kernel starts beside an older one that has blocks to place, on which SMs its blocks go,
// and how long no block runs between two kernels of a graph.

#include "block_order/kernels.hpp"
#include "experiment.hpp"

#include <gsched/core/error.hpp>
#include <gsched/core/launch.hpp>
#include <gsched/cuda/error.hpp>
#include <gsched/cuda/gpu.hpp>
#include <gsched/occupancy/calculator.hpp>

#include <CLI/CLI.hpp>
#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

namespace {

using namespace block_order;
using gsched::cuda::check;
using json = nlohmann::ordered_json;

struct run_options {
  unsigned rounds = 15;
  int gpu = 0;
  bool graphs = false;
  std::string json;
};

/// The blocks of a kernel.
struct shape {
  unsigned blocks = 1;
  unsigned threads = 128;
  std::size_t shared_bytes = 0;
  double us = 10;
  bool many_registers = false;
};

/// A kernel that is launched again and again, and the records of its last run.
class recorded {
public:
  /// `as_graph`: launched as a graph of one node.
  recorded(const shape& s, bool second, bool as_graph)
      : shape_(s), kernel_(timed_kernel(second, s.many_registers)), as_graph_(as_graph) {
    check(cudaMalloc(reinterpret_cast<void**>(&records_), s.blocks * sizeof(block_record)),
          "memory");
  }
  ~recorded() { cudaFree(records_); }
  recorded(const recorded&) = delete;
  recorded& operator=(const recorded&) = delete;

  void launch(cudaStream_t stream, std::uint32_t* has_started = nullptr) {
    timed_arguments a{static_cast<std::uint64_t>(shape_.us * 1e3), records_, has_started};
    void* arguments[] = {&a};
    const auto launch = [&] {
      check(cudaLaunchKernel(kernel_, dim3(shape_.blocks), dim3(shape_.threads), arguments,
                             shape_.shared_bytes, stream),
            "launch");
    };
    if (!as_graph_) return launch();
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
    launch();
    cudaGraph_t graph{};
    cudaGraphExec_t runs{};
    check(cudaStreamEndCapture(stream, &graph), "capture");
    check(cudaGraphInstantiate(&runs, graph, 0), "graph");
    check(cudaGraphLaunch(runs, stream), "launch");
    cudaGraphExecDestroy(runs); // once it has ended
    cudaGraphDestroy(graph);
  }
  [[nodiscard]] std::vector<block_record> records() const {
    std::vector<block_record> all(shape_.blocks);
    check(
        cudaMemcpy(all.data(), records_, all.size() * sizeof(block_record), cudaMemcpyDeviceToHost),
        "copy");
    return all;
  }

private:
  shape shape_;
  const void* kernel_;
  bool as_graph_;
  block_record* records_ = nullptr;
};

std::uint64_t first_start(const std::vector<block_record>& all) {
  return std::ranges::min_element(all, {}, &block_record::start_ns)->start_ns;
}
std::uint64_t last_start(const std::vector<block_record>& all) {
  return std::ranges::max_element(all, {}, &block_record::start_ns)->start_ns;
}
std::uint64_t last_end(const std::vector<block_record>& all) {
  return std::ranges::max_element(all, {}, &block_record::end_ns)->end_ns;
}

class order_experiment {
public:
  explicit order_experiment(const run_options& o)
      : o_(o), gpu_(gsched::cuda::find_gpu(o.gpu)), dog_("gsched.gpu.block_order") {
    sms_ = gpu_.sms.count();
    check(cudaDeviceGetAttribute(&most_shared_, cudaDevAttrMaxSharedMemoryPerBlockOptin, o.gpu),
          "attribute");
    for (const bool second : {false, true})
      for (const bool many : {false, true})
        check(cudaFuncSetAttribute(timed_kernel(second, many),
                                   cudaFuncAttributeMaxDynamicSharedMemorySize, most_shared_),
              "shared memory");
    int least = 0, most = 0;
    check(cudaDeviceGetStreamPriorityRange(&least, &most), "priorities");
    check(cudaStreamCreateWithPriority(&older_, cudaStreamNonBlocking, least), "stream");
    check(cudaStreamCreateWithPriority(&younger_, cudaStreamNonBlocking, least), "stream");
    check(cudaStreamCreateWithPriority(&urgent_, cudaStreamNonBlocking, most), "stream");
    check(cudaMallocHost(reinterpret_cast<void**>(&has_started_), sizeof *has_started_), "memory");
  }
  ~order_experiment() {
    cudaStreamDestroy(older_);
    cudaStreamDestroy(younger_);
    cudaStreamDestroy(urgent_);
    cudaFreeHost(has_started_);
  }
  order_experiment(const order_experiment&) = delete;
  order_experiment& operator=(const order_experiment&) = delete;

  void run() {
    starts();
    places();
    rooms();
    gaps();
    splits();
    halves();
    write();
  }

private:
  /// A kernel that is launched while blocks of an older one run.
  struct meeting {
    const char* name;
    shape older, younger;
    bool urgent = false;
    /// that each kernel prefers, in percent of shared memory; -1: the driver's choice
    int younger_split = 100;
    int older_split = 100;
  };

  struct pair {
    std::vector<block_record> older, younger;
  };

  static void prefer(bool second, int split) {
    for (const bool many : {false, true})
      check(cudaFuncSetAttribute(timed_kernel(second, many),
                                 cudaFuncAttributePreferredSharedMemoryCarveout, split),
            "split");
  }

  pair meet(const meeting& m, const shape* before = nullptr) {
    dog_.step(m.name, 20);
    prefer(false, m.older_split);
    prefer(true, m.younger_split);
    recorded older(m.older, false, o_.graphs);
    recorded younger(m.younger, true, o_.graphs);
    younger.launch(younger_); // so that the driver has loaded both
    older.launch(older_);
    check(cudaDeviceSynchronize(), "warm-up");
    if (before) {
      prefer(true, -1);
      recorded(*before, true, o_.graphs).launch(older_);
      check(cudaDeviceSynchronize(), "kernel before");
      prefer(true, m.younger_split);
    }
    *static_cast<volatile std::uint32_t*>(has_started_) = 0;
    older.launch(older_, has_started_);
    while (*static_cast<volatile std::uint32_t*>(has_started_) == 0) {
    }
    younger.launch(m.urgent ? urgent_ : younger_);
    check(cudaDeviceSynchronize(), m.name);
    dog_.rest();
    return {older.records(), younger.records()};
  }

  void starts() {
    const auto large = static_cast<std::size_t>(most_shared_) * 6 / 10; // one block an SM
    const shape full{sms_ * 2 * 8, 1024, 0, 50};
    const shape sparse{sms_ * 8, 128, large, 50};
    const shape small{sms_, 128, 0, 5};
    shape one_wave = sparse;
    one_wave.blocks = sms_;
    one_wave.us = 400;
    shape without = one_wave, third = one_wave, few = one_wave;
    without.shared_bytes = 0;
    third.shared_bytes = large / 2;
    few.shared_bytes = 16384;
    const auto with_shared = [&](std::size_t bytes) { return shape{sms_, 128, bytes, 5}; };
    fmt::print("A kernel that is launched while an older one runs: when its blocks start, as a "
               "part of the "
               "time from the\nolder one's first start to its last, or to its end if it has one "
               "wave; median "
               "of {}\n"
               "{:<52} {:>7} {:>7} {:>18}\n",
               o_.rounds, "", "first", "last", "before that");
    for (const meeting& m :
         {meeting{"8 waves, no room beside them", full, small},
          meeting{"8 waves, no room, a higher priority", full, small, true},
          meeting{"8 waves, room beside them", sparse, small},
          meeting{"8 waves, room, a higher priority", sparse, small, true},
          meeting{"8 waves, room, it prefers L1", sparse, small, false, 0},
          meeting{"one wave, room beside it", one_wave, small},
          meeting{"one wave, room, it prefers L1", one_wave, small, false, 0},
          meeting{"one wave with 60% of shared memory, beside none", one_wave, small, false, -1,
                  -1},
          meeting{"one wave with 60%, beside 1 KiB", one_wave, with_shared(1024), false, -1, -1},
          meeting{"one wave with 60%, beside 16 KiB", one_wave, with_shared(16384), false, -1, -1},
          meeting{"one wave with 60%, beside 30%", one_wave, with_shared(large / 2), false, -1, -1},
          meeting{"one wave with none, beside 60%", without, with_shared(large), false, -1, -1},
          meeting{"one wave with none, beside 16 KiB", without, with_shared(16384), false, -1, -1},
          meeting{"one wave with none, beside none", without, small, false, -1, -1},
          meeting{"one wave with 30%, beside 60%", third, with_shared(large), false, -1, -1},
          meeting{"one wave with 16 KiB, beside none", few, small, false, -1, -1}}) {
      std::vector<double> first, last, before;
      for (unsigned i = 0; i < o_.rounds; ++i) {
        const pair p = meet(m);
        const auto begin = static_cast<double>(first_start(p.older));
        // of a kernel of one wave: until its end
        const std::uint64_t until = m.older.blocks > sms_ ? last_start(p.older) : last_end(p.older);
        const double whole = static_cast<double>(until) - begin;
        first.push_back((static_cast<double>(first_start(p.younger)) - begin) / whole);
        last.push_back((static_cast<double>(last_start(p.younger)) - begin) / whole);
        before.push_back(
            static_cast<double>(std::ranges::count_if(
                p.younger, [&](const block_record& b) { return b.start_ns < until; })) /
            static_cast<double>(p.younger.size()));
      }
      using experiment::median;
      fmt::print("{:<52} {:>7.2f} {:>7.2f} {:>17.0f}%\n", m.name, median(first), median(last),
                 100 * median(before));
      starts_.push_back({{"case", m.name},
                         {"older_blocks", m.older.blocks},
                         {"older_shared_bytes", m.older.shared_bytes},
                         {"younger_shared_bytes", m.younger.shared_bytes},
                         {"older_split", m.older_split},
                         {"younger_split", m.younger_split},
                         {"first", first},
                         {"last", last},
                         {"before", before}});
    }
  }

  /// Blocks of a younger kernel by the number of older blocks on their SMs.
  void places() {
    const auto fifth = static_cast<std::size_t>(most_shared_) / 5;
    const shape older{sms_ * 9 / 4, 128, fifth, 1000}; // two or three on an SM
    fmt::print("\n{} older blocks on {} SMs: the SMs, and the blocks of a younger kernel, by the "
               "older blocks on an SM; median of {}\n{:<24} {:>18} {:>22}\n",
               older.blocks, sms_, o_.rounds, "younger blocks", "SMs with 2 / 3",
               "younger beside 2 / 3");
    for (const unsigned blocks : {sms_ / 4, sms_ * 3 / 4, sms_}) {
      std::vector<double> sms[2], beside[2];
      for (unsigned i = 0; i < o_.rounds; ++i) {
        const pair p = meet({"places", older, {blocks, 128, fifth, 5}});
        std::vector<unsigned> on(1024);
        for (const block_record& b : p.older) ++on.at(b.sm);
        for (const unsigned k : {2u, 3u}) {
          sms[k - 2].push_back(static_cast<double>(std::ranges::count(on, k)));
          beside[k - 2].push_back(static_cast<double>(std::ranges::count_if(
              p.younger, [&](const block_record& b) { return on.at(b.sm) == k; })));
        }
      }
      using experiment::median;
      fmt::print("{:<24} {:>18} {:>22}\n", blocks,
                 fmt::format("{:.0f} / {:.0f}", median(sms[0]), median(sms[1])),
                 fmt::format("{:.0f} / {:.0f}", median(beside[0]), median(beside[1])));
      places_.push_back({{"younger", blocks},
                         {"sms_with_2", sms[0]},
                         {"sms_with_3", sms[1]},
                         {"beside_2", beside[0]},
                         {"beside_3", beside[1]}});
    }
  }

  /// What an SM has of warps, registers, shared memory and places for blocks, or a block takes of
  /// it.
  using parts = std::array<std::uint32_t, 4>;

  [[nodiscard]] parts taken_by(const shape& s, bool second) const {
    cudaFuncAttributes has{};
    check(cudaFuncGetAttributes(&has, timed_kernel(second, s.many_registers)), "attributes");
    gsched::launch_shape launch;
    launch.grid.x = s.blocks;
    launch.block.x = s.threads;
    launch.registers_per_thread = static_cast<std::uint32_t>(has.numRegs);
    launch.dynamic_shared_bytes = static_cast<std::uint32_t>(s.shared_bytes);
    const gsched::block_allocation a = gsched::allocation_of(gpu_.sm, launch);
    return {a.warps, a.registers, a.shared_bytes, 1};
  }
  /// How many blocks fit into what is left of an SM.
  static std::uint32_t room(const parts& left, const parts& block) {
    std::uint32_t most = left[3];
    for (std::size_t i = 0; i < left.size(); ++i)
      if (block[i] > 0) most = std::min(most, left[i] / block[i]);
    return most;
  }
  static void take(parts& left, const parts& block) {
    for (std::size_t i = 0; i < left.size(); ++i) left[i] -= std::min(left[i], block[i]);
  }

  /// Whether each block of a younger kernel, in the order of their numbers, goes to an SM that
  /// could hold as many of them as any.
  void rooms() {
    const auto most = static_cast<std::size_t>(most_shared_) * 6 / 10;
    const struct {
      const char* name;
      shape older;
    } cases[] = {{"none but one warp", {1, 32, 0, 900}},
                 {"1,024 threads on half of the SMs", {sms_ / 2, 1024, 0, 900}},
                 {"1,024 threads on a quarter", {sms_ / 4, 1024, 0, 900}},
                 {"256 threads on half", {sms_ / 2, 256, 0, 900}},
                 {"60% of shared memory on half", {sms_ / 2, 128, most, 900}},
                 {"128 threads on all, twice on half", {sms_ * 3 / 2, 128, 0, 900}},
                 {"1,024 threads on all, twice on half", {sms_ * 3 / 2, 1024, 0, 900}}};
    const parts empty{gpu_.sm.max_warps, gpu_.sm.registers, gpu_.sm.shared_bytes,
                      gpu_.sm.max_blocks};
    fmt::print("\nBlocks of younger kernels of 128 to 512 threads, by how many more of them the SM "
               "with the most room could hold\n{:<38} {:>8} {:>9} {:>9} {:>9}\n",
               "older blocks", "younger", "0 more", "1 more", "2 or more");
    for (const auto& c : cases) {
      std::array<std::uint64_t, 3> fewer{};
      for (const unsigned threads : {128u, 256u, 512u})
        for (const std::size_t bytes : {std::size_t{0}, std::size_t{16384}})
          for (const bool many : {false, true})
            for (const unsigned blocks : {sms_, 2 * sms_, 4 * sms_, 8 * sms_}) {
              if (many && threads > 256) continue;
              const shape younger{blocks, threads, bytes, 200, many};
              const pair p = meet({"rooms", c.older, younger});
              const parts one = taken_by(c.older, false), block = taken_by(younger, true);
              std::vector<parts> left(sms_, empty);
              for (const block_record& r : p.older) take(left.at(r.sm), one);
              const std::uint64_t until = first_start(p.younger) + 100'000; // the first wave
              for (const block_record& r : p.younger) {
                if (r.start_ns >= until) continue;
                std::uint32_t best = 0;
                for (const parts& l : left) best = std::max(best, room(l, block));
                const std::uint32_t here = room(left.at(r.sm), block);
                ++fewer[std::min<std::size_t>(best - here, fewer.size() - 1)];
                take(left[r.sm], block);
              }
            }
      fmt::print("{:<38} {:>8} {:>9} {:>9} {:>9}\n", c.name, fewer[0] + fewer[1] + fewer[2],
                 fewer[0], fewer[1], fewer[2]);
      rooms_.push_back({{"older", c.name},
                        {"older_blocks", c.older.blocks},
                        {"older_threads", c.older.threads},
                        {"older_shared_bytes", c.older.shared_bytes},
                        {"fewer", fewer}});
    }
  }

  /// The time between the last end of a kernel's blocks and the first start of the next one's, in a
  /// graph of kernels one after the other.
  void gaps() {
    constexpr unsigned kernels = 40;
    fmt::print("\nus without a block between two kernels of a graph; of {} graphs of {} kernels\n"
               "{:<24} {:>8} {:>8} {:>8}\n",
               o_.rounds, kernels, "blocks of a kernel", "p10", "median", "p90");
    for (const unsigned blocks : {1u, sms_, 8 * sms_, 64 * sms_}) {
      dog_.step("gaps", 20);
      std::vector<std::unique_ptr<recorded>> chain;
      for (unsigned k = 0; k < kernels; ++k)
        chain.push_back(std::make_unique<recorded>(shape{blocks, 128, 0, 5}, false, false));
      check(cudaStreamBeginCapture(older_, cudaStreamCaptureModeThreadLocal), "capture");
      for (const auto& k : chain) k->launch(older_);
      cudaGraph_t graph{};
      cudaGraphExec_t runs{};
      check(cudaStreamEndCapture(older_, &graph), "capture");
      check(cudaGraphInstantiate(&runs, graph, 0), "graph");
      std::vector<double> us;
      for (unsigned i = 0; i <= o_.rounds; ++i) {
        check(cudaGraphLaunch(runs, older_), "launch");
        check(cudaDeviceSynchronize(), "gaps");
        if (i == 0) continue; // the first one warms up
        for (unsigned k = 1; k < kernels; ++k)
          us.push_back((static_cast<double>(first_start(chain[k]->records())) -
                        static_cast<double>(last_end(chain[k - 1]->records()))) *
                       1e-3);
      }
      cudaGraphExecDestroy(runs);
      cudaGraphDestroy(graph);
      dog_.rest();
      using experiment::quantile;
      fmt::print("{:<24} {:>8.2f} {:>8.2f} {:>8.2f}\n", blocks, quantile(us, 0.1),
                 quantile(us, 0.5), quantile(us, 0.9));
      gaps_.push_back({{"blocks", blocks},
                       {"p10", quantile(us, 0.1)},
                       {"median", quantile(us, 0.5)},
                       {"p90", quantile(us, 0.9)}});
    }
  }

  /// The splits of an SM's memory, by kernels without a preference: which one each kernel asks for,
  /// and which one an SM has while it runs there, as far as a kernel that asks for more finds room.
  void splits() {
    constexpr std::size_t sizes[] = {0,     256,   512,   1024,  2048,  3072,   4096,   8192,
                                     16384, 33000, 49152, 73728, 98304, 131072, 163840, 200000};
    struct row {
      shape kernel;
      std::uint32_t asks = 0, has = 0, has_after = 0;
    };
    std::vector<row> rows;
    for (const bool many : {false, true})
      for (const std::size_t bytes : sizes)
        for (const unsigned threads : {32u, 64u, 128u, 256u, 512u, 1024u})
          if (!many || threads <= 256) rows.push_back({{sms_, threads, bytes, 5, many}});
    const auto least_of = [&](const shape& kernel) {
      std::uint32_t least = 0;
      for (const std::uint32_t size : gpu_.sm.shared_splits) {
        least = size;
        const shape older{sms_, 1024, 0, 150};
        if (starts_at_once({"asks", older, kernel, false, -1, percent_of(size)})) break;
      }
      return least;
    };
    for (row& r : rows) r.asks = least_of(r.kernel);
    struct asking {
      shape kernel;
      std::uint32_t least;
    };
    std::vector<asking> probes; // kernels that ask for each split, with little in a block
    for (const std::size_t bytes :
         {64u, 256u, 512u, 1024u, 2048u, 4096u, 6144u, 8192u, 10240u, 12288u}) {
      const shape probe{sms_, 128, bytes, 5};
      probes.push_back({probe, least_of(probe)});
    }
    const shape largest{sms_, 128, static_cast<std::size_t>(most_shared_), 5};
    for (row& r : rows)
      for (const bool after : {false, true})
        for (const asking& probe : probes) {
          shape runs = r.kernel;
          runs.us = 150;
          if (!starts_at_once({"has", runs, probe.kernel, false, -1, -1},
                              after ? &largest : nullptr))
            break;
          (after ? r.has_after : r.has) = probe.least;
        }
    fmt::print("\nKernels without a preference: the smallest split of an SM, in KiB, that a kernel "
               "starts beside; and the\nlargest one that an SM has while it runs there, and after "
               "a kernel that asks for all\n{:>9} {:>8} {:>14} {:>10} {:>10} {:>10}\n",
               "registers", "threads", "shared, bytes", "asks for", "has", "has after");
    for (const row& r : rows) {
      fmt::print("{:>9} {:>8} {:>14} {:>10} {:>10} {:>10}\n",
                 r.kernel.many_registers ? "many" : "few", r.kernel.threads, r.kernel.shared_bytes,
                 r.asks / 1024, r.has / 1024, r.has_after / 1024);
      splits_.push_back({{"many_registers", r.kernel.many_registers},
                         {"threads", r.kernel.threads},
                         {"shared_bytes", r.kernel.shared_bytes},
                         {"asks", r.asks},
                         {"has", r.has},
                         {"has_after_largest", r.has_after}});
    }
  }
  /// Whether a kernel that waits for a larger split uses the SMs that are empty.
  void halves() {
    fmt::print("\nBlocks of a kernel that asks for a larger split than half of the SMs have, the "
               "others being empty\n{:>8} {:>22} {:>12}\n",
               "blocks", "that start at once", "on SMs");
    for (const unsigned blocks : {sms_ / 4, sms_ / 2, sms_, 2 * sms_}) {
      std::vector<double> at_once, on;
      for (unsigned i = 0; i < o_.rounds; ++i) {
        const pair p =
            meet({"half", {sms_ / 2, 128, 0, 400}, {blocks, 128, 30000, 5}, false, -1, -1});
        std::vector<bool> used(1024, false);
        double early = 0;
        for (const block_record& b : p.younger)
          if (b.start_ns < last_end(p.older)) ++early, used.at(b.sm) = true;
        at_once.push_back(early);
        on.push_back(static_cast<double>(std::ranges::count(used, true)));
      }
      using experiment::median;
      fmt::print("{:>8} {:>22.0f} {:>12.0f}\n", blocks, median(at_once), median(on));
      halves_.push_back({{"blocks", blocks}, {"at_once", at_once}, {"on", on}});
    }
  }
  [[nodiscard]] int percent_of(std::uint32_t bytes) const {
    const std::uint64_t all = gpu_.sm.shared_bytes;
    return static_cast<int>(bytes * std::uint64_t{100} / all); // the driver rounds up
  }
  /// In most of five runs. `before` runs first, and ends before the others begin.
  bool starts_at_once(const meeting& m, const shape* before = nullptr) {
    unsigned early = 0;
    constexpr unsigned runs = 5;
    for (unsigned i = 0; i < runs; ++i) {
      const pair p = meet(m, before);
      if (first_start(p.younger) < last_end(p.older)) ++early;
    }
    return early > runs / 2;
  }

  void write() const {
    if (o_.json.empty()) return;
    std::ofstream out(o_.json);
    out << json{{"experiment", "block_order"},
                {"gpu", gpu_.name},
                {"driver", gpu_.driver_version},
                {"runtime", gpu_.runtime_version},
                {"rounds", o_.rounds},
                {"graphs", o_.graphs},
                {"starts", starts_},
                {"places", places_},
                {"rooms", rooms_},
                {"gaps", gaps_},
                {"splits", splits_},
                {"halves", halves_}}
               .dump(1)
        << '\n';
    if (!out.flush())
      throw gsched::error(gsched::errc::io, o_.json + ": cannot be written, expected a file");
  }

  run_options o_;
  gsched::cuda::gpu gpu_;
  experiment::watchdog dog_;
  unsigned sms_ = 0;
  int most_shared_ = 0;
  cudaStream_t older_{}, younger_{}, urgent_{};
  std::uint32_t* has_started_ = nullptr;
  json starts_ = json::array(), places_ = json::array(), rooms_ = json::array();
  json gaps_ = json::array();
  json splits_ = json::array(), halves_ = json::array();
};

} // namespace

int main(int argc, char** argv) {
  run_options o;
  CLI::App app(
      "When and where the GPU places the blocks of a kernel beside an older one, the time\n"
      "without blocks between two kernels of a graph, and how an SM's memory is split\n"
      "between L1 and shared memory for each kernel.\n"
      "Example: gsched.gpu.block_order --json block_order.json");
  app.add_option("--rounds", o.rounds, "of each case")
      ->check(CLI::Range(1u, 1000u))
      ->capture_default_str();
  app.add_option("--gpu", o.gpu, "the GPU's number")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  app.add_flag("--graphs", o.graphs, "launch each kernel as a graph of one node");
  app.add_option("--json", o.json, "write the figures to this file, round by round");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& wrong) {
    if (wrong.get_exit_code() == 0) return app.exit(wrong);
    fmt::print(stderr, "gsched.gpu.block_order: {}\n", wrong.what());
    return 2;
  }
  try {
    order_experiment(o).run();
    return 0;
  } catch (const std::exception& wrong) {
    fmt::print(stderr, "gsched.gpu.block_order: {}\n", wrong.what());
    return 1;
  }
}
