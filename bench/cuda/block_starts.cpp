// SPDX-License-Identifier: Apache-2.0
// How many blocks the GPU's dispatcher starts in a microsecond, and what its work for a kernel of
// many short blocks costs kernels on other SMs: a graph of 50 short kernels is replayed there,
// alone and while the other kernel runs. Then what the kernels of a graph lose by the starts of
// other graphs' kernels, on SMs of their own. Then what a long kernel loses by them, by what it
// reads.

#include "block_starts/kernels.hpp"
#include "experiment.hpp"

#include <gsched/core/error.hpp>
#include <gsched/cuda/error.hpp>
#include <gsched/cuda/gpu.hpp>
#include <gsched/cuda/partition/partitions.hpp>

#include <CLI/CLI.hpp>
#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

namespace cuda = gsched::cuda;
using cuda::check;
using namespace block_starts;
using json = nlohmann::ordered_json;

constexpr int kernels = 50; ///< of the graph
constexpr unsigned graph_blocks = 32, graph_threads = 128;
constexpr double graph_us = 2;  ///< of each of its blocks
constexpr double busy_us = 4e3; ///< the kernel of short blocks, about

struct run_options {
  int gpu = 0;
  unsigned rounds = 6;
  std::string json;
};

/// A kernel of short blocks.
struct shape {
  unsigned threads = 32;
  double block_us = 0;    ///< it spins
  std::uint32_t rows = 0; ///< it copies, of 16 bytes a thread
};

struct times {
  double p50 = 0, most = 0;
};
times of(const std::vector<double>& us) {
  return {experiment::median(us), experiment::quantile(us, 1)};
}

std::vector<std::uint32_t> numbers(std::uint32_t from, std::uint32_t to) {
  std::vector<std::uint32_t> all(to - from);
  std::iota(all.begin(), all.end(), from);
  return all;
}

/// A stream on some SMs, and the time that the last work on it took.
class place {
public:
  place(int gpu, const std::vector<std::uint32_t>& groups)
      : on_(gpu, groups), stream_(on_.make_stream(0)) {
    for (cudaEvent_t& e : events_) check(cudaEventCreate(&e), "event");
  }
  ~place() {
    for (cudaEvent_t e : events_) cudaEventDestroy(e);
    if (graph_ != nullptr) cudaGraphExecDestroy(graph_);
    cudaStreamDestroy(stream_);
  }
  place(const place&) = delete;
  place& operator=(const place&) = delete;

  [[nodiscard]] std::uint32_t sms() const { return on_.sms().count(); }

  /// A graph of equal kernels, one after the other, for start_graph.
  void make_graph(int kernels_in_it, unsigned blocks, short_arguments a) {
    if (graph_ != nullptr) cudaGraphExecDestroy(graph_);
    cudaGraph_t graph{};
    check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "capture");
    for (int i = 0; i < kernels_in_it; ++i) launch(blocks, graph_threads, a);
    check(cudaStreamEndCapture(stream_, &graph), "capture");
    check(cudaGraphInstantiate(&graph_, graph, 0), "graph");
    cudaGraphDestroy(graph);
  }
  void start_graph() {
    check(cudaEventRecord(events_[0], stream_), "event");
    check(cudaGraphLaunch(graph_, stream_), "graph");
    check(cudaEventRecord(events_[1], stream_), "event");
  }
  void start_kernel(std::uint64_t blocks, unsigned threads, short_arguments a) {
    check(cudaEventRecord(events_[0], stream_), "event");
    launch(static_cast<unsigned>(blocks), threads, a);
    check(cudaEventRecord(events_[1], stream_), "event");
  }

  void start_chains(unsigned blocks, chain_arguments a) {
    void* arguments[] = {&a};
    check(cudaEventRecord(events_[0], stream_), "event");
    check(cudaLaunchKernel(block_starts::chains(), dim3(blocks), dim3(32), arguments, 0, stream_),
          "launch");
    check(cudaEventRecord(events_[1], stream_), "event");
  }

  [[nodiscard]] double took() const { return us_between(events_[0], events_[1]); }
  [[nodiscard]] bool ended_before(const place& other) const {
    return us_between(events_[1], other.events_[1]) > 0;
  }

private:
  void launch(unsigned blocks, unsigned threads, short_arguments a) {
    void* arguments[] = {&a};
    check(cudaLaunchKernel(short_blocks(), dim3(blocks), dim3(threads), arguments, 0, stream_),
          "launch");
  }
  static double us_between(cudaEvent_t from, cudaEvent_t to) {
    float ms = 0;
    check(cudaEventElapsedTime(&ms, from, to), "event");
    return 1e3 * static_cast<double>(ms);
  }

  cuda::partition on_;
  cudaStream_t stream_;
  cudaGraphExec_t graph_ = nullptr;
  std::array<cudaEvent_t, 2> events_{};
};

class experiment_of_starts {
public:
  explicit experiment_of_starts(const run_options& o)
      : o_(o), dog_("gsched.gpu.block_starts"), gpu_(cuda::find_gpu(o.gpu)) {
    dog_.step("the GPU", 60);
    check(cudaSetDevice(o.gpu), "GPU");
    int khz = 0;
    check(cudaDeviceGetAttribute(&khz, cudaDevAttrClockRate, o.gpu), "clock");
    cycles_per_us_ = khz * 1e-3;
    check(cudaMalloc(&from_, buffer_bytes), "memory");
    check(cudaMalloc(&to_, buffer_bytes), "memory");
    check(cudaMemset(from_, 0, buffer_bytes), "memory");
    out_ = {{"gpu", gpu_.name}, {"driver", gpu_.driver_version}, {"rows", json::array()}};
  }
  ~experiment_of_starts() {
    cudaFree(from_);
    cudaFree(to_);
  }
  experiment_of_starts(const experiment_of_starts&) = delete;
  experiment_of_starts& operator=(const experiment_of_starts&) = delete;

  void run() {
    fmt::print("A kernel of short blocks, and a graph of {} kernels on other SMs; median of {}\n"
               "{:>4} {:>5} {:>7} {:>9} {:>6} {:>10} {:>10} {:>11} {:>10} {:>17}\n",
               kernels, o_.rounds, "SMs", "graph", "threads", "block, us", "rows", "blocks/us",
               "graph, us", "beside, us", "late, us", "ended before it");
    const auto groups = static_cast<std::uint32_t>(cuda::group_sizes(o_.gpu).size());
    if (groups < 4)
      throw gsched::error(gsched::errc::too_small,
                          fmt::format("{} groups of SMs, expected 4", groups));
    std::vector<shape> shapes;
    for (const unsigned threads : {32u, 64u, 128u, 256u}) {
      for (const double us : {0., 0.125, 0.25, 0.375, 0.5, 0.75, 1., 1.5, 2.5})
        shapes.push_back({threads, us, 0});
      for (const std::uint32_t rows : {1u, 2u, 4u, 8u, 16u}) shapes.push_back({threads, 0, rows});
    }
    for (const std::uint32_t busy : {groups - 1, groups * 3 / 4, groups / 2, groups / 4}) {
      place some(o_.gpu, numbers(0, busy));
      place others(o_.gpu, numbers(busy, busy + std::min(groups - busy, std::max(1u, groups / 4))));
      others.make_graph(kernels, graph_blocks, arguments({graph_threads, graph_us, 0}));
      for (const shape& s : shapes) meet(some, others, s);
    }
    chains(groups);
    long_kernels(groups);
    dog_.rest();
  }

private:
  /// Graphs of equal kernels beside one another, whose kernels are as long or 1.4 times as long.
  void chains(std::uint32_t groups) {
    constexpr int long_chain = 1000;
    constexpr std::uint32_t most = 6;
    const std::uint32_t each = std::max(1u, groups / 8);
    std::vector<std::unique_ptr<place>> all;
    for (std::uint32_t i = 0; i < std::min(most, groups / each); ++i)
      all.push_back(std::make_unique<place>(o_.gpu, numbers(i * each, (i + 1) * each)));
    fmt::print(
        "\nus a kernel of a graph of {}, beside so many such graphs on other SMs; median of {}\n"
        "{:>6} {:>10} {:>7}",
        long_chain, o_.rounds, "blocks", "block, us", "others");
    for (std::size_t n = 0; n < all.size(); ++n) fmt::print(" {:>7}", n);
    fmt::print("\n");
    for (const unsigned blocks : {1u, 16u, 64u, 256u, 1000u})
      for (const double us : {0., 0.5, 1., 2., 4.})
        for (const bool equal : {true, false}) {
          dog_.step(fmt::format("chains of {} blocks of {} us", blocks, us), 30);
          for (std::size_t i = 0; i < all.size(); ++i)
            all[i]->make_graph(
                long_chain, blocks,
                arguments({graph_threads, equal || i == 0 ? us : 1.4 * us + 0.35, 0}));
          std::vector<double> medians, largest;
          for (std::size_t n = 0; n < all.size(); ++n) {
            std::vector<double> took;
            for (unsigned r = 0; r <= o_.rounds; ++r) {
              for (std::size_t i = 1; i <= n; ++i)
                for (int twice = 0; twice < 2; ++twice) all[i]->start_graph();
              all[0]->start_graph();
              check(cudaDeviceSynchronize(), "chains");
              if (r > 0) took.push_back(all[0]->took() / long_chain);
            }
            medians.push_back(of(took).p50);
            largest.push_back(of(took).most);
          }
          fmt::print("{:>6} {:>10} {:>7}", blocks, us, equal ? "equal" : "longer");
          for (const double m : medians) fmt::print(" {:>7.3f}", m);
          fmt::print("\n");
          std::fflush(stdout);
          out_["chains"].push_back({{"blocks", blocks},
                                    {"block_us", us},
                                    {"others", equal ? "equal" : "longer"},
                                    {"kernel_us", medians},
                                    {"kernel_us_max", largest}});
          if (!o_.json.empty()) std::ofstream(o_.json) << out_.dump(1) << '\n';
        }
  }

  /// A kernel of half a millisecond, beside a graph of kernels of one block that only spin, and
  /// beside one such kernel.
  void long_kernels(std::uint32_t groups) {
    constexpr double kernel_us = 500, graph_us_least = 6000;
    const std::vector<std::uint32_t> rest = numbers(groups / 2, groups);
    place half(o_.gpu, numbers(0, groups / 2)), others(o_.gpu, rest), one(o_.gpu, rest);
    one.make_graph(1, 1, arguments({graph_threads, graph_us_least, 0}));
    fill_constants();
    std::vector<std::uint32_t> words(chain_words);
    for (std::uint32_t i = 0; i < chain_words; ++i) words[i] = after(i);
    check(cudaMemcpy(from_, words.data(), 4 * words.size(), cudaMemcpyHostToDevice), "memory");
    fmt::print(
        "\nA kernel on {} SMs that follows a chain of words, beside a graph of kernels of one "
        "block on other SMs; median of {}\n{:>8} {:>10} {:>10} {:>12} {:>9} {:>12}\n",
        half.sms(), o_.rounds, "words in", "one, us", "block, us", "starts / us", "slowed",
        "us a start");
    const std::pair<const char*, chain_of> all[] = {{"none", chain_of::nothing},
                                                    {"shared", chain_of::shared_memory},
                                                    {"constant", chain_of::constants},
                                                    {"L1", chain_of::l1},
                                                    {"L2", chain_of::l2}};
    for (const auto& [name, what] : all)
      for (const double us : {0., 1., 2., 4., 8., 16., 32., 64.}) {
        dog_.step(fmt::format("a chain in {} beside kernels of {} us", name, us), 20);
        const int chain = static_cast<int>(graph_us_least / (us + 0.6));
        others.make_graph(chain, 1, arguments({graph_threads, us, 0}));
        chain_arguments a{what, 1000, static_cast<const std::uint32_t*>(from_)};
        for (int i = 0; i < 3; ++i) { // the first time cold
          half.start_chains(half.sms(), a);
          check(cudaDeviceSynchronize(), "kernel");
          if (i > 0) a.steps = static_cast<std::uint32_t>(a.steps * kernel_us / half.took());
        }
        const auto beside_of = [&](place& p) {
          p.start_graph();
          std::this_thread::sleep_for(std::chrono::microseconds{200});
          half.start_chains(half.sms(), a);
          check(cudaDeviceSynchronize(), "both");
          return half.took();
        };
        std::vector<double> alone, beside, rates;
        bool all_met = true; // the graph ended after the kernel
        for (unsigned r = 0; r <= o_.rounds; ++r) {
          const double us_alone = beside_of(one), us_beside = beside_of(others);
          if (r == 0) continue;
          alone.push_back(us_alone);
          beside.push_back(us_beside);
          rates.push_back(chain / others.took());
          all_met = all_met && half.ended_before(others);
        }
        if (!all_met) { // so much slower
          fmt::print("{:>8} {:>10.1f} {:>10} {:>12} {:>9}\n", name, of(alone).p50, us, "-",
                     "too slow");
          continue;
        }
        const times t[] = {of(alone), of(beside), of(rates)};
        const double slowed = t[1].p50 / t[0].p50;
        const double lost = (t[1].p50 - t[0].p50) / (t[1].p50 * t[2].p50);
        fmt::print("{:>8} {:>10.1f} {:>10} {:>12.3f} {:>9.3f} {:>12.3f}\n", name, t[0].p50, us,
                   t[2].p50, slowed, lost);
        std::fflush(stdout);
        out_["long_kernels"].push_back({{"words_in", name},
                                        {"sms", half.sms()},
                                        {"beside_one_us", {{"p50", t[0].p50}, {"max", t[0].most}}},
                                        {"block_us", us},
                                        {"starts_per_us", t[2].p50},
                                        {"beside_us", {{"p50", t[1].p50}, {"max", t[1].most}}},
                                        {"slowed", slowed},
                                        {"lost_us_a_start", lost},
                                        {"rounds", o_.rounds}});
        if (!o_.json.empty()) std::ofstream(o_.json) << out_.dump(1) << '\n';
      }
  }

  static constexpr std::size_t buffer_bytes = std::size_t{8} << 20;

  [[nodiscard]] short_arguments arguments(const shape& s) const {
    return {static_cast<std::uint64_t>(s.block_us * cycles_per_us_), s.rows,
            static_cast<std::uint32_t>(buffer_bytes / 16 - 1), from_, to_};
  }

  void meet(place& some, place& others, const shape& s) {
    dog_.step(fmt::format("{} threads, {} us, {} rows", s.threads, s.block_us, s.rows), 20);
    const short_arguments a = arguments(s);
    std::uint64_t blocks = 200'000;
    for (int i = 0; i < 2; ++i) { // the second time warm
      some.start_kernel(blocks, s.threads, a);
      check(cudaDeviceSynchronize(), "kernel");
    }
    blocks = std::max<std::uint64_t>(
        1, static_cast<std::uint64_t>(static_cast<double>(blocks) / some.took() * busy_us));
    std::vector<double> alone, busy, beside;
    unsigned first = 0; // ended before the kernel
    for (unsigned i = 0; i <= o_.rounds; ++i) {
      others.start_graph();
      check(cudaDeviceSynchronize(), "graph");
      const double graph_us_alone = others.took();
      some.start_kernel(blocks, s.threads, a);
      check(cudaDeviceSynchronize(), "kernel");
      const double busy_us_alone = some.took();
      some.start_kernel(blocks, s.threads, a);
      std::this_thread::sleep_for(std::chrono::microseconds{100});
      others.start_graph();
      check(cudaDeviceSynchronize(), "both");
      if (i == 0) continue; // the first round loads things
      alone.push_back(graph_us_alone);
      busy.push_back(busy_us_alone);
      beside.push_back(others.took());
      first += others.ended_before(some);
    }
    const double rate = static_cast<double>(blocks) / experiment::median(busy);
    const double late = (experiment::median(beside) - experiment::median(alone)) / kernels;
    fmt::print("{:>4} {:>5} {:>7} {:>9} {:>6} {:>10.0f} {:>10.1f} {:>11.1f} {:>10.2f} {:>17}\n",
               some.sms(), others.sms(), s.threads, s.block_us, s.rows, rate,
               experiment::median(alone), experiment::median(beside), late,
               fmt::format("{} of {}", first, o_.rounds));
    std::fflush(stdout);
    const times t[] = {of(alone), of(busy), of(beside)};
    out_["rows"].push_back({{"sms", some.sms()},
                            {"graph_sms", others.sms()},
                            {"threads", s.threads},
                            {"block_us", s.block_us},
                            {"rows", s.rows},
                            {"blocks", blocks},
                            {"blocks_per_us", rate},
                            {"graph_us", {{"p50", t[0].p50}, {"max", t[0].most}}},
                            {"kernel_us", {{"p50", t[1].p50}, {"max", t[1].most}}},
                            {"beside_us", {{"p50", t[2].p50}, {"max", t[2].most}}},
                            {"late_us", late},
                            {"ended_before", first},
                            {"rounds", o_.rounds}});
    if (!o_.json.empty()) std::ofstream(o_.json) << out_.dump(1) << '\n';
  }

  run_options o_;
  experiment::watchdog dog_;
  cuda::gpu gpu_;
  double cycles_per_us_ = 1;
  void* from_ = nullptr;
  void* to_ = nullptr;
  json out_;
};

} // namespace

int main(int argc, char** argv) {
  run_options o;
  CLI::App app(
      "How many blocks the GPU's dispatcher starts in a microsecond, and how late that makes "
      "kernels on other SMs.\nA kernel of short blocks runs on some of the SMs, a graph of 50 "
      "kernels on others. Then graphs of 1,000 short\nkernels run beside one another, on SMs of "
      "their own, and one long kernel runs beside such a graph.\nTakes about a minute.\n"
      "CUDA_DEVICE_MAX_CONNECTIONS is 32 unless the environment says otherwise.\n\n"
      "  blocks/us        of the first kernel alone\n"
      "  late, us         what each kernel of the graph is later beside it\n"
      "  ended before it  rounds in which the graph ended before the first kernel\n"
      "  one, us          what the long kernel takes beside one kernel that spins\n"
      "  us a start       what it is later by for each start of the graph's kernels\n");
  app.add_option("--gpu", o.gpu, "the GPU's number")->check(CLI::Range(0, 1024));
  app.add_option("--rounds", o.rounds, "of each case")
      ->check(CLI::Range(1u, 1000u))
      ->capture_default_str();
  app.add_option("--json", o.json, "write the figures to this file, as they come");
  CLI11_PARSE(app, argc, argv);
  try {
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
    experiment_of_starts(o).run();
    return 0;
  } catch (const std::exception& wrong) {
    fmt::print(stderr, "gsched.gpu.block_starts: {}\n", wrong.what());
    return 1;
  }
}
