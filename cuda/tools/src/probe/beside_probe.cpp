// SPDX-License-Identifier: Apache-2.0
#include <gsched/cuda_tools/beside_probe.hpp>

#include "graph/measure/replay.hpp"

#include <gsched/core/error.hpp>
#include <gsched/cuda/error.hpp>
#include <gsched/cuda/gpu.hpp>
#include <gsched/cuda/partition/partitions.hpp>
#include <gsched/cuda/program.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace gsched::cuda {

namespace {

/// A graph that is replayed on a stream, each replay between two events.
class replayed {
public:
  replayed(cudaGraphExec_t graph, cudaStream_t stream) : graph_(graph), stream_(stream) {
    for (int i = 0; i <= most; ++i) events_.push_back(make_event("time of a replay"));
  }

  /// Replays without a pause for about that long, and appends the times.
  void run(double ms, std::vector<double>& into) {
    double spent = 0;
    for (int done = 0; done < 4 || spent < ms * 1e3;) {
      const double each = done == 0 ? ms * 1e3 : spent / done;
      const int left = static_cast<int>((ms * 1e3 - spent) / std::max(each, 1.0));
      const int some = std::clamp(left, 4, most);
      check(cudaEventRecord(events_[0].get(), stream_), "replay");
      for (int i = 0; i < some; ++i) {
        check(cudaGraphLaunch(graph_, stream_), "replay");
        check(cudaEventRecord(events_[static_cast<std::size_t>(i) + 1].get(), stream_), "replay");
      }
      check(cudaStreamSynchronize(stream_), "replay");
      for (int i = 0; i < some; ++i) {
        float t = 0;
        check(cudaEventElapsedTime(&t, events_[static_cast<std::size_t>(i)].get(),
                                   events_[static_cast<std::size_t>(i) + 1].get()),
              "replay");
        into.push_back(t * 1e3);
        spent += t * 1e3;
      }
      done += some;
    }
  }

private:
  static constexpr int most = 64;
  cudaGraphExec_t graph_;
  cudaStream_t stream_;
  std::vector<event_owner> events_;
};

/// Two graphs that start at once.
class started_together {
public:
  started_together(cudaGraphExec_t first, cudaStream_t its, cudaGraphExec_t second,
                   cudaStream_t stream)
      : graphs_{first, second}, streams_{its, stream} {
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
        check(cudaGraphLaunch(graphs_[g], streams_[g]), "replay");
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

  std::array<cudaGraphExec_t, 2> graphs_;
  std::array<cudaStream_t, 2> streams_;
  std::array<event_owner, 2> begin_, end_;
};

/// The partitions of a split; empty for shared SMs.
struct places {
  std::optional<partition> victim, probe;

  places(int gpu, const probe_split& split) {
    if (split.victim.count() == 0) return;
    const std::vector<std::uint32_t> sizes = group_sizes(gpu);
    std::vector<std::uint32_t> mine;
    std::vector<std::uint32_t> rest;
    std::uint32_t has = 0;
    std::uint32_t others = 0;
    for (std::uint32_t g = 0; g < sizes.size(); ++g) {
      if (has < split.victim.count()) {
        mine.push_back(g);
        has += sizes[g];
      } else if (split.probe.count() == 0 || others < split.probe.count()) {
        rest.push_back(g);
        others += sizes[g];
      }
    }
    if (rest.empty())
      throw error(errc::too_small, "split: " + std::to_string(split.victim.count()) +
                                       " SMs leave none to the probe, expected fewer");
    victim.emplace(gpu, mine);
    probe.emplace(gpu, rest);
  }
};

} // namespace

beside_result measure_beside(CUgraph victim, const probe_options& how, const probe_split& split,
                             const beside_options& options) {
  const gpu on = find_gpu(options.gpu);
  const places where(options.gpu, split);
  const CUcontext place = where.victim ? where.victim->context() : nullptr;
  beside_result made;
  made.victim_sms = where.victim ? where.victim->sms() : on.sms;
  made.probe_sms = where.probe ? where.probe->sms() : on.sms;

  program_options plain;
  plain.name = "graph beside a probe";
  plain.measure = false;
  const program p(victim, plain);
  const graph_owner placed(p.make_range(0, p.host().size(), {.place = place}));
  const exec_owner graph = instantiate(placed.get());
  probe beside(how, made.probe_sms, where.probe ? where.probe->context() : nullptr);
  const stream_owner stream = where.victim ? stream_owner(where.victim->make_stream(0))
                                           : make_stream("stream of the graph");
  const stream_owner its =
      where.probe ? stream_owner(where.probe->make_stream(0)) : make_stream("stream of the probe");

  replayed replays(graph.get(), stream.get());
  std::vector<double> warm;
  std::vector<double> alone;
  std::vector<double> with;
  double rate = 0;
  double rate_with = 0;
  const double limit_us = options.limit_s * 1e6;
  const auto started = [&] {
    if (beside.wait_running(limit_us)) return;
    throw error(errc::device_failed, beside.name() + ": no block started, expected one");
  };
  const auto rate_of = [&] {
    const probe::result r = beside.last();
    return r.us > 0 ? r.rounds / r.us : 0;
  };
  replays.run(2, warm);
  for (int turn = 0; turn < options.turns; ++turn) {
    replays.run(options.turn_ms, alone);
    if (options.each_replay_us > 0) {
      const double until = options.turn_ms * 1e3;
      for (double spent = 0; spent < until; spent += with.back()) {
        beside.start(its.get(), options.each_replay_us);
        started();
        std::vector<double> one;
        event_owner first = make_event("replay");
        event_owner last = make_event("replay");
        check(cudaEventRecord(first.get(), stream.get()), "replay");
        check(cudaGraphLaunch(graph.get(), stream.get()), "replay");
        check(cudaEventRecord(last.get(), stream.get()), "replay");
        check(cudaStreamSynchronize(stream.get()), "replay");
        float t = 0;
        check(cudaEventElapsedTime(&t, first.get(), last.get()), "replay");
        with.push_back(t * 1e3);
        beside.stop();
      }
    } else {
      beside.start(its.get(), limit_us);
      started();
      replays.run(options.turn_ms, with);
      beside.stop();
      rate_with += rate_of() / options.turns;
      made.last = beside.last();
      if (!made.last.stopped) {
        made.held_up = true; // it ran when the probe had ended
        break;
      }
      beside.start(its.get(), options.turn_ms * 250); // a quarter of a turn
      started();
      beside.wait();
      beside.stop();
      rate += rate_of() / options.turns;
    }
  }
  if (options.each_replay_us > 0) made.last = beside.last();
  made.alone = summarize(std::move(alone));
  if (options.together > 0) {
    const exec_owner finite = instantiate(beside.finite(beside.rounds_for(made.alone.median)));
    started_together both(graph.get(), stream.get(), finite.get(), its.get());
    made.in_turn_us = made.alone.median + both.second_alone(options.together);
    made.together_us = both.together(options.together);
  }
  made.beside = summarize(std::move(with));
  made.probe_rate_alone = rate;
  made.probe_rate_beside = rate_with;
  return made;
}

} // namespace gsched::cuda
