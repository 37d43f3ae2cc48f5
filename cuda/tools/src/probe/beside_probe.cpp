// SPDX-License-Identifier: Apache-2.0
#include <gsched/cuda_tools/beside_probe.hpp>
#include <gsched/cuda_tools/partition_sms.hpp>

#include "graph/measure/replay.hpp"

#include <gsched/core/error.hpp>
#include <gsched/cuda/error.hpp>
#include <gsched/cuda/gpu.hpp>
#include <gsched/cuda/partition/partitions.hpp>
#include <gsched/cuda/program.hpp>
#include <gsched/cuda_tools/replaying.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace gsched::cuda {

namespace {

/// Two graphs that start at once.
class started_together {
public:
  using launcher = std::function<void(cudaStream_t)>;

  started_together(launcher first, cudaStream_t its, launcher second, cudaStream_t stream)
      : launch_{std::move(first), std::move(second)}, streams_{its, stream} {
    for (event_owner& e : begin_) e = make_event("replay");
    for (event_owner& e : end_) e = make_event("replay");
  }
  /// The median time until both have ended.
  [[nodiscard]] double together(int times) { return median(times, 0); }
  /// The median time of the second graph alone.
  [[nodiscard]] double second_alone(int times) { return median(times, 1); }

private:
  [[nodiscard]] double median(int times, std::size_t from) {
    std::vector<double> us;
    for (int i = 0; i < times; ++i) {
      for (std::size_t g = from; g < 2; ++g) {
        check(cudaEventRecord(begin_[g].get(), streams_[g]), "replay");
        launch_[g](streams_[g]);
        check(cudaEventRecord(end_[g].get(), streams_[g]), "replay");
      }
      for (std::size_t g = from; g < 2; ++g) check(cudaStreamSynchronize(streams_[g]), "replay");
      float longest = 0;
      for (std::size_t a = from; a < 2; ++a)
        for (std::size_t b = from; b < 2; ++b) {
          float t = 0;
          check(cudaEventElapsedTime(&t, begin_[a].get(), end_[b].get()), "replay");
          longest = std::max(longest, t);
        }
      us.push_back(longest * 1e3);
    }
    return summarize(std::move(us)).median;
  }

  std::array<launcher, 2> launch_;
  std::array<cudaStream_t, 2> streams_;
  std::array<event_owner, 2> begin_, end_;
};

/// The partitions of a split; empty for shared SMs.
struct places {
  std::shared_ptr<const partition> victim, probe;

  places(int gpu, const probe_split& split) {
    if (split.victim.count() == 0) return;
    const std::vector<std::uint32_t> sizes = group_sizes(gpu);
    std::vector<std::uint32_t> mine(groups_for(split.victim, sizes));
    std::iota(mine.begin(), mine.end(), 0u);
    std::vector<std::uint32_t> rest;
    std::uint32_t others = 0;
    for (auto g = static_cast<std::uint32_t>(mine.size()); g < sizes.size(); ++g) {
      if (split.probe.count() == 0 || others < split.probe.count()) {
        rest.push_back(g);
        others += sizes[g];
      }
    }
    if (rest.empty())
      throw error(errc::too_small, "split: " + std::to_string(split.victim.count()) +
                                       " SMs leave none to the probe, expected fewer");
    victim = std::make_shared<const partition>(gpu, mine);
    probe = std::make_shared<const partition>(gpu, rest);
  }
};

} // namespace

void check_sms(const probe_options& how, sm_count sms, const probe::result& ran) {
  const std::uint32_t expected = sms_of_blocks(how, sms);
  if (ran.sms != expected)
    throw error(errc::device_failed, how.name() + ": on " + std::to_string(ran.sms) +
                                         " SMs, expected its blocks on " +
                                         std::to_string(expected));
}

beside_result measure_beside(CUgraph victim, const probe_options& how, const probe_split& split,
                             const beside_options& options) {
  const gpu on = find_gpu(options.gpu);
  const places where(options.gpu, split);
  beside_result made;
  made.victim_sms = where.victim ? where.victim->sms() : on.sms;
  made.probe_sms = where.probe ? where.probe->sms() : on.sms;

  program_options plain;
  plain.name = "graph beside a probe";
  plain.measure = false;
  const program p(victim, plain);
  const placed_graph graph(p, where.victim);
  probe beside(how, made.probe_sms, where.probe ? where.probe->context() : nullptr);
  const stream_owner stream = where.victim ? stream_owner(where.victim->make_stream(0))
                                           : make_stream("stream of the graph");
  const stream_owner its =
      where.probe ? stream_owner(where.probe->make_stream(0)) : make_stream("stream of the probe");

  replayer replays({.alone = from_us(options.turn_ms * 1e3), .progressed = options.progressed});
  std::vector<double> alone;
  std::vector<double> with;
  double rate = 0, rate_with = 0; // sums of so many
  int rates = 0, rates_with = 0;
  constexpr double slowest = 8; // a graph that takes longer beside the probe counts as held up
  double limit_us = options.limit_s * 1e6;
  const auto started = [&] {
    if (beside.wait_running(limit_us)) return;
    throw error(errc::device_failed, beside.name() + ": no block started, expected one");
  };
  std::vector<std::uint32_t> own; // SMs of the graph's partition
  if (where.victim) own = sm_numbers(*where.victim);
  made.victim_sms_seen = where.victim ? static_cast<std::uint32_t>(own.size()) : 0;
  const auto ran = [&] {
    const probe::result r = beside.last();
    check_sms(how, made.probe_sms, r);
    if (where.victim) check_apart("graph beside " + beside.name(), own, beside.sms_used());
    return r;
  };
  const auto rate_of = [&] {
    const probe::result r = beside.last();
    return r.us > 0 ? r.rounds / r.us : 0;
  };
  for (int turn = 0; turn < options.turns; ++turn) {
    replays.alone(graph, alone, stream.get());
    if (turn == 0)
      limit_us = std::max(limit_us, slowest * std::accumulate(alone.begin(), alone.end(), 0.0));
    if (options.each_replay_us > 0) {
      const double until = options.turn_ms * 1e3;
      for (double spent = 0; spent < until; spent += with.back()) {
        beside.start(its.get(), options.each_replay_us);
        started();
        std::vector<double> one;
        event_owner first = make_event("replay");
        event_owner last = make_event("replay");
        check(cudaEventRecord(first.get(), stream.get()), "replay");
        graph.launch(stream.get());
        check(cudaEventRecord(last.get(), stream.get()), "replay");
        check(cudaStreamSynchronize(stream.get()), "replay");
        float t = 0;
        check(cudaEventElapsedTime(&t, first.get(), last.get()), "replay");
        with.push_back(t * 1e3);
        beside.stop();
        if (options.progressed) options.progressed();
      }
    } else {
      beside.start(its.get(), limit_us);
      started();
      replays.alone(graph, with, stream.get());
      beside.stop();
      rate_with += rate_of();
      ++rates_with;
      made.last = ran();
      if (!made.last.stopped) {
        made.held_up = true; // it ran when the probe had ended
        break;
      }
      beside.start(its.get(), options.turn_ms * 250); // a quarter of a turn
      started();
      beside.wait();
      beside.stop();
      rate += rate_of();
      ++rates;
    }
  }
  if (options.each_replay_us > 0) made.last = ran();
  made.alone = summarize(std::move(alone));
  if (options.together > 0) {
    const exec_owner finite = instantiate(beside.finite(beside.rounds_for(made.alone.median)));
    started_together both(
        [&](cudaStream_t to) { graph.launch(to); }, stream.get(),
        [&](cudaStream_t to) { check(cudaGraphLaunch(finite.get(), to), "replay"); }, its.get());
    made.in_turn_us = made.alone.median + both.second_alone(options.together);
    made.together_us = both.together(options.together);
  }
  made.beside = summarize(std::move(with));
  if (rates > 0) made.probe_rate_alone = rate / rates;
  if (rates_with > 0) made.probe_rate_beside = rate_with / rates_with;
  return made;
}

} // namespace gsched::cuda
