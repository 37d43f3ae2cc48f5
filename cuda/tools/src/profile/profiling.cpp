// SPDX-License-Identifier: Apache-2.0
#include <gsched/cuda_tools/profiling.hpp>

#include "graph/measure/replay.hpp"
#include "profile/profiling_cupti.hpp"
#include "profile/unseen.hpp"

#include <gsched/core/error.hpp>
#include <gsched/cuda/driver.hpp>
#include <gsched/cuda/error.hpp>
#include <gsched/cuda/gpu.hpp>
#include <gsched/cuda/partition/partitions.hpp>
#include <gsched/cuda/program.hpp>

#include <cxxabi.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <utility>

namespace gsched::cuda {

namespace {

/// The form of names in profiles: demangled and shortened.
std::string shown(const std::string& symbol) {
  constexpr std::size_t longest = 96;
  int failed = 0;
  const std::unique_ptr<char, void (*)(void*)> plain(
      abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &failed), std::free);
  const std::string name = failed == 0 && plain ? plain.get() : symbol;
  return name.substr(0, longest);
}

std::string name_of(const operation& op, const node_facts& facts) {
  if (op.kind == operation_kind::kernel) return shown(facts.symbol);
  return op.kind == operation_kind::memset ? "memset" : "memcpy";
}

/// Launches each operation of a program separately on one stream, and collects its records.
class one_by_one {
public:
  /// On the SMs of a context; null: all SMs.
  one_by_one(const program& p, cudaStream_t stream, cupti_records& from, CUcontext place = nullptr)
      : program_(p), stream_(stream), records_(from) {
    for (std::size_t i = 0; i < p.host().size(); ++i)
      graphs_.push_back(instantiate(graph_owner(p.make_range(i, i + 1, {.place = place})).get()));
  }

  /// The median time of each operation.
  [[nodiscard]] std::vector<duration> times(int replays) {
    std::vector<std::vector<duration>> all(graphs_.size());
    run(0, graphs_.size(), nullptr); // warm-up: loads modules
    for (int r = 0; r < replays; ++r) run(0, graphs_.size(), &all);
    std::vector<duration> medians;
    for (std::vector<duration>& t : all) {
      const auto middle = t.begin() + static_cast<std::ptrdiff_t>(t.size() / 2);
      std::nth_element(t.begin(), middle, t.end());
      medians.push_back(std::max(*middle, duration{1}));
    }
    return medians;
  }

private:
  /// If there are as many records as launches, they correspond in order, because a stream runs in
  /// order. Otherwise an operation has several records or none, and bisection finds it.
  void run(std::size_t first, std::size_t last, std::vector<std::vector<duration>>* into) {
    for (std::size_t i = first; i < last; ++i)
      check(driver().cuGraphLaunch(graphs_[i].get(), stream_), "profiled operation");
    check(cudaStreamSynchronize(stream_), "profiled operation");
    const std::vector<cupti_records::span> seen = records_.take(last - first);
    if (into == nullptr) return;
    if (seen.size() == last - first) {
      for (std::size_t i = first; i < last; ++i)
        (*into)[i].push_back(time_of(seen[i - first].start, seen[i - first].end));
    } else if (last - first > 1) {
      static_cast<void>(records_.take(0)); // drops late records of this round
      const std::size_t middle = first + (last - first) / 2;
      run(first, middle, into);
      run(middle, last, into);
    } else if (seen.empty()) {
      throw unseen(operation_text(program_.host().name(), first, name(first)),
                   "no record from CUPTI, expected one");
    } else {
      std::uint64_t end = 0;
      for (const cupti_records::span& s : seen) end = std::max(end, s.end);
      (*into)[first].push_back(time_of(seen.front().start, end));
    }
  }

  [[nodiscard]] static duration time_of(std::uint64_t start, std::uint64_t end) noexcept {
    return duration{end > start ? static_cast<duration::rep>(end - start) : 0};
  }
  [[nodiscard]] std::string name(std::size_t i) const {
    return name_of(program_.host().operations()[i], program_.facts()[i]);
  }

  const program& program_;
  cudaStream_t stream_;
  cupti_records& records_;
  std::vector<exec_owner> graphs_;
};

void measure_with_cupti(const program& p, const profiling_options& how, cudaStream_t stream,
                        const gpu& on, profile& into) {
  cupti_records records(how.cupti_library); // CUPTI must be enabled before graphs are instantiated
  const std::vector<duration> alone = one_by_one(p, stream, records).times(how.replays);
  for (std::size_t i = 0; i < alone.size(); ++i) into.operations[i].work.expected = alone[i];
  std::vector<sm_count> partitions = how.partitions;
  std::sort(partitions.begin(), partitions.end());
  sm_count last{};
  for (const sm_count wanted : partitions) {
    const partition part(on.ordinal, wanted); // destroyed before the next one needs its SMs
    if (part.sms() <= last || part.sms() >= on.sms) continue;
    last = part.sms();
    const stream_owner its(part.make_stream(0));
    // Separate graphs: a kernel node runs on the SMs of its context.
    const std::vector<duration> there =
        one_by_one(p, its.get(), records, part.context()).times(how.replays);
    for (std::size_t i = 0; i < there.size(); ++i)
      into.operations[i].work.by_sms.push_back({last, there[i]});
  }
}

} // namespace

profile profile_graph(CUgraph graph, const profiling_options& how) {
  if (how.replays < 1 || how.replays > 1000)
    throw error(errc::bad_option,
                "replays: " + std::to_string(how.replays) + ", expected 1 to 1000");
  constexpr std::size_t most_partitions = 8;
  if (how.partitions.size() > most_partitions)
    throw error(errc::bad_option, "partitions: " + std::to_string(how.partitions.size()) +
                                      ", expected at most " + std::to_string(most_partitions));
  static_cast<void>(driver());
  int ordinal = 0;
  check(cudaGetDevice(&ordinal), "GPU");
  const gpu on = find_gpu(ordinal);

  profile made;
  made.model = how.model;
  made.batch = how.batch;
  made.dtype = how.dtype;
  made.device = on.name;
  made.sms = on.sms;
  made.input = how.input;
  made.output = how.output;
  made.durations_measured = how.cupti;

  program_options plain;
  plain.name = made.full_name();
  plain.measure = !how.cupti;
  plain.measured_runs = how.replays;
  const program p(graph, plain);
  for (std::size_t i = 0; i < p.host().size(); ++i) {
    const operation& op = p.host().operations()[i];
    const node_facts& facts = p.facts()[i];
    profile_operation& o = made.operations.emplace_back();
    o.after = facts.after;
    o.symbol = facts.symbol;
    o.name = name_of(op, facts);
    o.local_bytes = facts.local_bytes;
    o.work = op;
    o.work.handle = nullptr; // refers to this program, which is destroyed on return
    o.work.kernel = no_kernel;
  }

  const stream_owner stream = make_stream("stream for measurements");
  {
    const graph_owner whole(p.make_range(0, p.host().size(), {}));
    const double ns = median_replay_ns(instantiate(whole.get()).get(), stream.get(), how.replays);
    made.graph_replay = duration{static_cast<duration::rep>(ns)};
  }
  if (how.cupti) measure_with_cupti(p, how, stream.get(), on, made);
  return made;
}

} // namespace gsched::cuda
