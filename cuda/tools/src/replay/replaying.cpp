// SPDX-License-Identifier: Apache-2.0
#include <gsched/cuda_tools/replaying.hpp>

#include "graph/measure/replay.hpp"
#include "owners.hpp"

#include <gsched/core/error.hpp>
#include <gsched/cuda/driver.hpp>
#include <gsched/cuda/error.hpp>
#include <gsched/cuda/gpu.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <limits>
#include <string>
#include <utility>

namespace gsched::cuda {

// placed_graph ------------------------------------------------------------------------------------

struct placed_graph::state {
  const program* of = nullptr;
  std::shared_ptr<const partition> where;
  sm_count sms{};
  exec_owner exec;

  [[nodiscard]] stream_owner make_own_stream() const {
    if (where) return stream_owner(where->make_stream(0));
    return make_stream("stream of a replay");
  }
  void replay(cudaStream_t on) const {
    check(driver().cuGraphLaunch(exec.get(), on), of->host().name().c_str());
  }
};

placed_graph::placed_graph(const program& of, std::shared_ptr<const partition> where,
                           bool keep_memory_nodes)
    : state_(std::make_unique<state>()) {
  state& s = *state_;
  s.of = &of;
  s.where = std::move(where);
  range_options how;
  how.keep_memory_nodes = keep_memory_nodes;
  if (s.where) {
    how.place = s.where->context();
    s.sms = s.where->sms();
  } else {
    int ordinal = 0, sms = 0;
    check(cudaGetDevice(&ordinal), "GPU");
    check(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, ordinal), "GPU");
    s.sms = sm_count{static_cast<std::uint32_t>(sms)};
  }
  s.exec = instantiate(graph_owner(of.make_range(0, of.host().size(), how)).get());
}

placed_graph::~placed_graph() = default;
placed_graph::placed_graph(placed_graph&&) noexcept = default;
placed_graph& placed_graph::operator=(placed_graph&&) noexcept = default;
sm_count placed_graph::sms() const noexcept { return state_->sms; }
void placed_graph::upload(CUstream on) const {
  check(driver().cuGraphUpload(state_->exec.get(), on), state_->of->host().name().c_str());
}
void placed_graph::launch(CUstream on) const { state_->replay(on); }

// replayer ----------------------------------------------------------------------------------------

namespace {

constexpr const char* what = "timed replay";

[[nodiscard]] double ms_between(const event_owner& from, const event_owner& to) {
  float ms = 0;
  check(cudaEventElapsedTime(&ms, from.get(), to.get()), what);
  return static_cast<double>(ms);
}

} // namespace

struct replayer::state {
  /// Two events around a replay.
  struct marks {
    event_owner begin = make_event(what);
    event_owner end = make_event(what);
  };

  /// One graph of several that run at the same time.
  struct runner {
    const placed_graph* graph = nullptr;
    stream_owner stream;
    std::deque<marks> in_flight;
    struct span {
      double begin = 0;
      double end = 0;
    };
    std::vector<span> done; ///< milliseconds since the common start
    std::size_t depth = 2;  ///< replays to keep in flight
  };

  replay_options how;
  std::vector<marks> spare;
  event_owner start = make_event(what);

  [[nodiscard]] marks take() {
    if (spare.empty()) return {};
    marks m = std::move(spare.back());
    spare.pop_back();
    return m;
  }

  /// Collects the replays of `r` that have ended.
  void collect(runner& r) {
    while (!r.in_flight.empty()) {
      const cudaError_t e = cudaEventQuery(r.in_flight.front().end.get());
      if (e == cudaErrorNotReady) {
        static_cast<void>(cudaGetLastError()); // not an error: clear it before the next launch
        return;
      }
      check(e, what);
      marks m = std::move(r.in_flight.front());
      r.in_flight.pop_front();
      r.done.push_back({ms_between(start, m.begin), ms_between(start, m.end)});
      spare.push_back(std::move(m));
      const double took = std::max(r.done.back().end - r.done.back().begin, 1e-3);
      r.depth = static_cast<std::size_t>(std::clamp(std::ceil(0.3 / took), 2.0, 24.0));
    }
  }
  void submit(runner& r);
  void progress() const {
    if (how.progressed) how.progressed();
  }
};

replayer::replayer(const replay_options& how) : state_(std::make_unique<state>()) {
  state_->how = how;
}
replayer::~replayer() = default;

void replayer::state::submit(runner& r) {
  while (r.in_flight.size() < r.depth) {
    marks m = take();
    check(cudaEventRecord(m.begin.get(), r.stream.get()), what);
    r.graph->state_->replay(r.stream.get());
    check(cudaEventRecord(m.end.get(), r.stream.get()), what);
    r.in_flight.push_back(std::move(m));
  }
}

void replayer::alone(const placed_graph& g, std::vector<double>& into, CUstream on) {
  constexpr double most_at_once = 64;
  state& s = *state_;
  const placed_graph::state& of = *g.state_;
  const stream_owner own = on == nullptr ? of.make_own_stream() : nullptr;
  const CUstream stream = on == nullptr ? own.get() : on;
  std::vector<state::marks> all;
  struct replayed {
    double kept = 0; ///< milliseconds of all that are kept
    double last = 0;
  };
  const auto replay = [&](std::size_t times, std::size_t first_kept) {
    for (std::size_t i = 0; i < times; ++i) {
      state::marks m = s.take();
      check(cudaEventRecord(m.begin.get(), stream), what);
      of.replay(stream);
      check(cudaEventRecord(m.end.get(), stream), what);
      all.push_back(std::move(m));
    }
    check(cudaStreamSynchronize(stream), what);
    s.progress();
    replayed r;
    for (std::size_t i = 0; i < times; ++i) {
      r.last = ms_between(all[i].begin, all[i].end);
      if (i >= first_kept) {
        into.push_back(1e3 * r.last);
        r.kept += r.last;
      }
      s.spare.push_back(std::move(all[i]));
    }
    all.clear();
    return r;
  };
  const double once = std::max(replay(2, 2).last, 1e-3); // uploads the graph, fills caches
  const std::size_t lead = once < 1 ? 2 : 0;             // the host submits while these run
  double left = static_cast<double>(s.how.alone.count()) / 1e6;
  do {
    const double kept = std::clamp(std::ceil(left / once), 2.0, most_at_once);
    left -= std::max(replay(lead + static_cast<std::size_t>(kept), lead).kept, 1e-3);
  } while (left > once / 2);
}

double replayer::together(std::span<const placed_graph* const> graphs,
                          std::span<std::vector<double>> into) {
  state& s = *state_;
  if (graphs.size() < 2 || into.size() != graphs.size())
    throw error(errc::bad_option, "graphs to replay together: " + std::to_string(graphs.size()) +
                                      ", expected two or more with as many lists of times");
  for (std::size_t i = 0; i < graphs.size(); ++i)
    for (std::size_t k = 0; k < i; ++k)
      if (graphs[i]->state_->of == graphs[k]->state_->of)
        throw error(errc::bad_option, graphs[i]->state_->of->host().name() +
                                          " beside itself with the same memory, expected another "
                                          "instance of it");
  std::vector<state::runner> all(graphs.size());
  for (std::size_t i = 0; i < graphs.size(); ++i) { // streams one after another: queues apart
    all[i].graph = graphs[i];
    all[i].stream = graphs[i]->state_->make_own_stream();
  }
  for (const state::runner& r : all) r.graph->state_->replay(r.stream.get()); // uploads the graph
  for (const state::runner& r : all) check(cudaStreamSynchronize(r.stream.get()), what);
  s.progress();
  check(cudaEventRecord(s.start.get(), all.front().stream.get()), what);
  check(cudaStreamSynchronize(all.front().stream.get()), what);

  using clock = std::chrono::steady_clock;
  const auto until = clock::now() + s.how.together;
  const auto enough = [&] {
    return clock::now() >= until &&
           std::all_of(all.begin(), all.end(),
                       [&](const state::runner& r) { return r.done.size() > s.how.least; });
  };
  while (!enough())
    for (state::runner& r : all) {
      s.submit(r);
      const std::size_t before = r.done.size();
      s.collect(r);
      // A graph that has enough says nothing about another one, which may hang.
      if (before <= s.how.least && r.done.size() > before) s.progress();
    }
  for (state::runner& r : all) {
    check(cudaStreamSynchronize(r.stream.get()), what);
    s.collect(r);
  }

  double from = 0;
  double to = std::numeric_limits<double>::max();
  for (const state::runner& r : all) {
    from = std::max(from, r.done.front().begin);
    to = std::min(to, r.done.back().end);
  }
  double overlap = 1;
  for (std::size_t i = 0; i < all.size(); ++i) {
    double busy = 0;
    for (const state::runner::span& t : all[i].done) {
      busy += std::max(0.0, std::min(t.end, to) - std::max(t.begin, from));
      if (t.begin >= from && t.end <= to) into[i].push_back(1e3 * (t.end - t.begin));
    }
    overlap = std::min(overlap, to > from ? busy / (to - from) : 0);
  }
  return overlap;
}

} // namespace gsched::cuda
