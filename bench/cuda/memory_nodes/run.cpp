// SPDX-License-Identifier: Apache-2.0
#include "memory_nodes/run.hpp"

#include "experiment.hpp"

#include <gsched/core/error.hpp>
#include <gsched/core/quantity.hpp>
#include <gsched/core/time.hpp>
#include <gsched/cuda/error.hpp>
#include <gsched/cuda/gpu.hpp>
#include <gsched/cuda/partition/partitions.hpp>
#include <gsched/cuda/program.hpp>
#include <gsched/cuda_tools/replay_times.hpp>
#include <gsched/cuda_tools/replaying.hpp>
#include <gsched/cuda_tools/stand_in.hpp>
#include <gsched/job/operation.hpp>
#include <gsched/job/program.hpp>

#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace memory_nodes {

namespace cuda = gsched::cuda;
using json = nlohmann::ordered_json;

namespace {

/// Sets or copies, spread evenly over the kernels of a graph.
struct memory_work {
  const char* name;
  unsigned count;
  gsched::operation each;
};

gsched::operation kernel(unsigned blocks, double us) {
  gsched::operation op;
  op.launch.grid = {blocks, 1, 1};
  op.launch.block = {256, 1, 1};
  op.launch.registers_per_thread = 32;
  op.expected = gsched::from_us(us);
  return op;
}

gsched::operation set_of(std::uint64_t bytes) {
  gsched::operation op;
  op.kind = gsched::operation_kind::memset;
  op.bytes = gsched::byte_count{bytes};
  return op;
}

gsched::operation copy_of(std::uint64_t bytes) {
  gsched::operation op = set_of(bytes);
  op.kind = gsched::operation_kind::memcpy;
  op.direction = gsched::copy_direction::device_to_device;
  return op;
}

/// A chain of kernels, with the work behind kernels at equal distances.
cuda::program chain(const std::string& name, unsigned kernels, const gsched::operation& each,
                    const memory_work& with) {
  std::vector<gsched::operation> all;
  for (unsigned i = 0; i < kernels; ++i) {
    all.push_back(each);
    const auto before = [&](unsigned k) { return std::uint64_t{k} * with.count / kernels; };
    all.insert(all.end(), before(i + 1) - before(i), with.each);
  }
  return cuda::make_stand_in(gsched::program(name, std::move(all)));
}

struct measured {
  std::vector<double> alone, beside; ///< us
  std::vector<double> by_turn;       ///< medians beside the neighbours; their queues differ
  std::vector<double> neighbours;    ///< us, of the neighbours' replays meanwhile
  double overlap = 1;                ///< the least
};

/// A graph on its SMs, with its sets and copies in one of the two ways.
struct subject {
  const memory_work* work;
  bool own_sms;
  bool nodes;
  cuda::placed_graph graph;
  measured seen{};
};

class comparison {
public:
  explicit comparison(const run_options& o)
      : o_(o), on_(cuda::find_gpu(o.gpu)), dog_("gsched.gpu.memory_nodes"),
        replayer_({std::chrono::milliseconds{6}, std::chrono::milliseconds{25}, 3}) {
    dog_.step("set-up", 120);
    cuda::check(cudaSetDevice(o.gpu), "GPU");
    const std::vector<std::uint32_t> groups = cuda::group_sizes(o.gpu);
    const std::uint32_t sms = std::accumulate(groups.begin(), groups.end(), 0u);
    const gsched::sm_count wanted{o.sms == 0 ? sms / 2 : o.sms};
    own_ = std::make_shared<cuda::partition>(o.gpu, wanted);
    const std::uint32_t rest = sms - std::min(sms, own_->sms().count());
    for (unsigned left = o.neighbours; left > 0; --left) {
      const std::uint32_t used =
          std::accumulate(others_.begin(), others_.end(), 0u,
                          [](std::uint32_t sum, const auto& p) { return sum + p->sms().count(); });
      const gsched::sm_count next{std::max((rest - std::min(rest, used)) / left, 1u)};
      others_.push_back(std::make_shared<cuda::partition>(o.gpu, next));
    }
    works_ = {{"kernels alone", 0, set_of(o.small)}, {"sets", 7, set_of(o.small)},
              {"sets", 24, set_of(o.small)},         {"sets", 60, set_of(o.small)},
              {"copies", 60, copy_of(o.small)},      {"large sets", 7, set_of(o.large)}};
    const gsched::operation each = kernel(own_->sms().count(), o.kernel_us);
    for (const memory_work& w : works_)
      programs_.push_back(chain(fmt::format("{} {}", w.count, w.name), o.kernels, each, w));
    for (const auto& p : others_)
      long_programs_.push_back(chain("neighbour", o.long_kernels,
                                     kernel(p->sms().count(), o.long_kernel_us), works_.front()));
    for (std::size_t i = 0; i < others_.size(); ++i) {
      beside_[true].emplace_back(long_programs_[i], others_[i]);
      beside_[false].emplace_back(long_programs_[i], nullptr);
    }
    for (const bool own_sms : {true, false})
      for (std::size_t i = 0; i < works_.size(); ++i)
        for (const bool nodes : {true, false})
          subjects_.push_back({&works_[i], own_sms, nodes,
                               cuda::placed_graph(programs_[i], own_sms ? own_ : nullptr, nodes)});
  }

  void run() {
    const double end = experiment::seconds_now() + o_.seconds;
    do {
      dog_.step("a turn", 120);
      for (subject& s : subjects_) turn(s);
      ++turns_;
      save();
    } while (experiment::seconds_now() < end);
    dog_.rest();
    print();
  }

private:
  void turn(subject& s) {
    replayer_.alone(s.graph, s.seen.alone);
    std::vector<const cuda::placed_graph*> graphs{&s.graph};
    for (const cuda::placed_graph& g : beside_[s.own_sms]) graphs.push_back(&g);
    std::vector<std::vector<double>> times(graphs.size());
    s.seen.overlap = std::min(s.seen.overlap, replayer_.together(graphs, times));
    const auto append = [](std::vector<double>& to, const std::vector<double>& from) {
      to.insert(to.end(), from.begin(), from.end());
    };
    append(s.seen.beside, times[0]);
    if (!times[0].empty()) s.seen.by_turn.push_back(experiment::median(times[0]));
    for (std::size_t i = 1; i < times.size(); ++i) append(s.seen.neighbours, times[i]);
  }

  /// The part of the replays beside the neighbours that took more than 1.5 times as long as alone.
  [[nodiscard]] static double held_up(const measured& m) {
    if (m.beside.empty()) return 0;
    const double most = 1.5 * experiment::median(m.alone);
    const auto n =
        std::count_if(m.beside.begin(), m.beside.end(), [&](double us) { return us > most; });
    return static_cast<double>(n) / static_cast<double>(m.beside.size());
  }

  static json summary(const std::vector<double>& us) {
    const cuda::replay_times t = cuda::summarize(us);
    return {{"count", t.count}, {"p10_us", t.p10}, {"median_us", t.median}, {"p90_us", t.p90}};
  }

  void save() const {
    if (o_.json.empty()) return;
    json rows = json::array();
    for (const subject& s : subjects_)
      rows.push_back({{"work", s.work->name},
                      {"count", s.work->count},
                      {"bytes", s.work->each.bytes.count()},
                      {"sms", s.graph.sms().count()},
                      {"own_sms", s.own_sms},
                      {"way", way_of(s)},
                      {"alone", summary(s.seen.alone)},
                      {"beside", summary(s.seen.beside)},
                      {"held_up", held_up(s.seen)},
                      {"beside_by_turn_us", s.seen.by_turn},
                      {"neighbours", summary(s.seen.neighbours)},
                      {"overlap", s.seen.overlap}});
    json sms = json::array();
    for (const auto& p : others_) sms.push_back(p->sms().count());
    std::ofstream out(o_.json);
    out << json{{"experiment", "memory_nodes"},
                {"gpu", on_.name},
                {"driver", on_.driver_version},
                {"runtime", on_.runtime_version},
                {"connections", connections()},
                {"turns", turns_},
                {"kernels", o_.kernels},
                {"kernel_us", o_.kernel_us},
                {"long_kernels", o_.long_kernels},
                {"long_kernel_us", o_.long_kernel_us},
                {"neighbours_sms", std::move(sms)},
                {"rows", std::move(rows)}}
               .dump(1)
        << '\n';
    if (!out.flush())
      throw gsched::error(gsched::errc::io, o_.json + ": cannot be written, expected a file");
  }

  void print() const {
    fmt::print("{} turns, CUDA_DEVICE_MAX_CONNECTIONS {}; {} kernels of {} us beside {} x {} of {} "
               "us; p10, median and p90 in us\n",
               turns_, connections(), o_.kernels, o_.kernel_us, others_.size(), o_.long_kernels,
               o_.long_kernel_us);
    fmt::print("{:>16} {:>4} {:>8} {:>29} {:>29} {:>6} {:>7} {:>10}\n", "work", "SMs", "as",
               "alone", "beside others", "ratio", "held up", "others, us");
    for (const subject& s : subjects_) {
      const auto text = [](const cuda::replay_times& t) {
        return fmt::format("{:9.1f} {:9.1f} {:9.1f}", t.p10, t.median, t.p90);
      };
      const cuda::replay_times alone = cuda::summarize(s.seen.alone);
      const cuda::replay_times beside = cuda::summarize(s.seen.beside);
      fmt::print("{:>16} {:>4} {:>8} {:>29} {:>29} {:6.2f} {:6.1f}% {:10.1f}\n",
                 fmt::format("{} {}", s.work->count, s.work->name), s.graph.sms().count(),
                 way_of(s), text(alone), text(beside), beside.median / alone.median,
                 100 * held_up(s.seen), experiment::median(s.seen.neighbours));
    }
    std::fflush(stdout);
  }

  [[nodiscard]] static const char* way_of(const subject& s) {
    return s.nodes ? "nodes" : "kernels";
  }
  [[nodiscard]] static std::string connections() {
    const char* const set = std::getenv("CUDA_DEVICE_MAX_CONNECTIONS");
    return set != nullptr ? set : "as the driver has it";
  }

  run_options o_;
  cuda::gpu on_;
  experiment::watchdog dog_;
  cuda::replayer replayer_;
  std::shared_ptr<cuda::partition> own_;
  std::vector<std::shared_ptr<cuda::partition>> others_;
  std::vector<memory_work> works_;
  std::deque<cuda::program> programs_, long_programs_;
  std::vector<cuda::placed_graph> beside_[2]; ///< by whether the graph beside has its own SMs
  std::vector<subject> subjects_;
  unsigned turns_ = 0;
};

} // namespace

void run(const run_options& o) { comparison(o).run(); }

} // namespace memory_nodes
