// SPDX-License-Identifier: Apache-2.0
// Which streams of partitions wait for one another although they have their own SMs: CUDA assigns
// streams to hardware queues, and a graph behind another stream's graph in a queue waits for it. A
// long graph runs on the stream of one partition, and a short one is launched on that of another.
// With copies, both lie between a copy from the host and one to it, as batches with data do; these
// have queues of their own (CUDA_DEVICE_MAX_COPY_CONNECTIONS).

#include "experiment.hpp"

#include <gsched/cuda/error.hpp>
#include <gsched/cuda/partition/partitions.hpp>
#include <gsched/cuda/program.hpp>
#include <gsched/cuda_tools/replaying.hpp>
#include <gsched/cuda_tools/stand_in.hpp>

#include <CLI/CLI.hpp>
#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

namespace {

namespace cuda = gsched::cuda;
using experiment::seconds_now;
using json = nlohmann::ordered_json;

/// Kernels of one block, one after another.
cuda::program chain_of(std::size_t n, double us) {
  gsched::operation each;
  each.launch.grid = {1, 1, 1};
  each.launch.block = {32, 1, 1};
  each.launch.registers_per_thread = 32;
  each.expected = gsched::from_us(us);
  return cuda::make_stand_in(gsched::program("chain", std::vector<gsched::operation>(n, each)));
}

class seat {
public:
  seat(std::uint32_t group, const cuda::program& slow, const cuda::program& quick, bool copies)
      : partition_(std::make_shared<const cuda::partition>(0, std::vector<std::uint32_t>{group})),
        stream_(partition_->make_stream(0)), slow_(slow, partition_), quick_(quick, partition_) {
    slow_.upload(stream_);
    quick_.upload(stream_);
    if (!copies) return;
    cuda::check(cudaMallocHost(&here_, copied), "pinned memory");
    cuda::check(cudaMalloc(&there_, copied), "memory");
  }
  ~seat() {
    static_cast<void>(cudaStreamSynchronize(stream_));
    static_cast<void>(cudaStreamDestroy(stream_));
    static_cast<void>(cudaFree(there_));
    static_cast<void>(cudaFreeHost(here_));
  }
  seat(const seat&) = delete;
  seat& operator=(const seat&) = delete;

  void launch(bool slow) const {
    const auto copy = [this](void* to, const void* from, cudaMemcpyKind kind) {
      if (here_ == nullptr) return;
      cuda::check(cudaMemcpyAsync(to, from, copied, kind, stream_), "copy");
    };
    copy(there_, here_, cudaMemcpyHostToDevice);
    (slow ? slow_ : quick_).launch(stream_);
    copy(here_, there_, cudaMemcpyDeviceToHost);
  }
  [[nodiscard]] bool is_idle() const { return cudaStreamQuery(stream_) == cudaSuccess; }

private:
  static constexpr std::size_t copied = 4096;

  std::shared_ptr<const cuda::partition> partition_;
  CUstream stream_ = nullptr;
  cuda::placed_graph slow_, quick_;
  void* here_ = nullptr; ///< null: no copies
  void* there_ = nullptr;
};

struct options {
  unsigned queues = 32, partitions = 15, rounds = 3;
  bool copies = false;
  std::string json;
};

class experiment_of {
public:
  explicit experiment_of(const options& o)
      : o_(o), dog_("gsched.gpu.hardware_queues"), slow_(chain_of(8, 250)), quick_(chain_of(1, 2)) {
  }

  /// The number of additional streams created before those of each partition.
  [[nodiscard]] json run(unsigned between) {
    json rounds = json::array();
    for (unsigned round = 0; round < o_.rounds; ++round) { // the streams of others stay
      dog_.step("a round", 60);
      std::vector<std::unique_ptr<seat>> seats;
      std::vector<cudaStream_t> others;
      for (unsigned i = 0; i < o_.partitions; ++i) {
        for (unsigned k = 0; k < between; ++k) {
          others.emplace_back();
          cuda::check(cudaStreamCreateWithFlags(&others.back(), cudaStreamNonBlocking), "stream");
        }
        seats.push_back(std::make_unique<seat>(i, slow_, quick_, o_.copies));
      }
      json waits = json::array();
      unsigned pairs = 0;
      for (unsigned i = 0; i < seats.size(); ++i)
        for (unsigned k = 0; k < seats.size(); ++k) {
          if (i == k || !waits_for(*seats[k], *seats[i])) continue;
          waits.push_back({k, i});
          ++pairs;
        }
      fmt::print("{} queues, {} streams between, round {}: {} of {} pairs wait\n", o_.queues,
                 between, round, pairs, seats.size() * (seats.size() - 1));
      rounds.push_back({{"between", between}, {"waits", std::move(waits)}});
      if (round % 2 == 1)
        for (const cudaStream_t s : others) cuda::check(cudaStreamDestroy(s), "stream");
    }
    dog_.rest();
    return rounds;
  }

private:
  /// Whether a short graph of one ends only after a long graph of the other, which takes 2 ms.
  [[nodiscard]] static bool waits_for(const seat& quick, const seat& slow) {
    int seen = 0;
    for (int i = 0; i < 2; ++i) {
      slow.launch(true);
      const double begun = seconds_now();
      while (seconds_now() - begun < 100e-6) {
      }
      quick.launch(false);
      while (!quick.is_idle()) {
      }
      seen += seconds_now() - begun > 1.2e-3 ? 1 : 0;
      while (!slow.is_idle()) {
      }
    }
    return seen == 2;
  }

  options o_;
  experiment::watchdog dog_;
  cuda::program slow_, quick_;
};

} // namespace

int main(int argc, char** argv) {
  options o;
  CLI::App app("Which streams of partitions wait for one another, by the streams made between.");
  app.add_option("--queues", o.queues, "hardware queues: CUDA_DEVICE_MAX_CONNECTIONS")
      ->check(CLI::Range(1u, 32u))
      ->capture_default_str();
  app.add_option("--partitions", o.partitions, "of one group each")
      ->check(CLI::Range(2u, 64u))
      ->capture_default_str();
  app.add_option("--rounds", o.rounds, "of making all anew")
      ->check(CLI::Range(1u, 100u))
      ->capture_default_str();
  app.add_flag("--copies", o.copies,
               "a copy from the host before each graph, and one to it behind");
  app.add_option("--json", o.json, "write all pairs that wait to this file");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& wrong) {
    if (wrong.get_exit_code() == 0) return app.exit(wrong);
    fmt::print(stderr, "gsched.gpu.hardware_queues: {}\n", wrong.what());
    return 2;
  }
  try {
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", std::to_string(o.queues).c_str(), 1);
    experiment_of e(o);
    json out{{"queues", o.queues},
             {"partitions", o.partitions},
             {"copies", o.copies},
             {"rounds", json::array()}};
    for (const unsigned between : {0u, 1u, 2u, 3u})
      for (auto& round : e.run(between)) out["rounds"].push_back(std::move(round));
    if (!o.json.empty()) {
      std::ofstream file(o.json);
      file << out.dump(1) << '\n';
      if (!file.flush()) throw gsched::error(gsched::errc::io, o.json + ": cannot write");
    }
    return 0;
  } catch (const std::exception& wrong) {
    fmt::print(stderr, "gsched.gpu.hardware_queues: {}\n", wrong.what());
    return 1;
  }
}
