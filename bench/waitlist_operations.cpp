// SPDX-License-Identifier: Apache-2.0
// The cost of the waitlist for a dispatcher, compared with the obvious alternative: a dependency
// graph with a counter for each operation, as in task runtimes. Both do the same work; the
// operations that they return are summed and compared, and a difference ends the program.

#include <gsched/job/waitlist.hpp>

#include <benchmark/benchmark.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

using namespace gsched;

namespace {

constexpr duration quantum = std::chrono::microseconds(100);

/// Like ResNet-152: 700 operations of 2 to 3 us.
const program& model() {
  static const program p = [] {
    std::vector<operation> ops(700);
    for (std::size_t i = 0; i < ops.size(); ++i)
      ops[i].expected = duration{2000 + static_cast<int>(i * 37 % 1000)};
    program made("model", std::move(ops));
    made.set_id(program_id{0});
    return made;
  }();
  return p;
}

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "waitlist_operations: %s\n", what);
  std::exit(1);
}

/// Each operation counts its unfinished predecessors, and lists its successors. The order of the
/// legacy stream is an edge from the last operation of every stream.
class dependency_graph {
public:
  explicit dependency_graph(std::size_t streams) : last_(streams) {}

  void launch(std::size_t stream, duration expected, bool legacy) {
    auto made = std::make_shared<node>();
    made->expected = expected;
    const auto after = [&](const std::shared_ptr<node>& before) {
      if (!before || before->done) return;
      before->then.push_back(made);
      ++made->waits;
    };
    if (legacy) {
      for (const auto& l : last_) after(l);
    } else {
      after(last_[stream]);
      if (stream != 0) after(last_[0]);
    }
    last_[stream] = made;
    if (made->waits == 0) ready_.push_back(std::move(made));
  }
  /// Runs the oldest operation that may start.
  bool run_one(duration& sum) {
    if (ready_.empty()) return false;
    const std::shared_ptr<node> n = std::move(ready_.front());
    ready_.pop_front();
    n->done = true;
    sum += n->expected;
    for (auto& t : n->then)
      if (--t->waits == 0) ready_.push_back(std::move(t));
    return true;
  }

private:
  struct node {
    duration expected{};
    std::size_t waits = 0;
    bool done = false;
    std::vector<std::shared_ptr<node>> then;
  };
  std::vector<std::shared_ptr<node>> last_;
  std::deque<std::shared_ptr<node>> ready_;
};

/// try_cut and done of one segment, over many jobs alternately, like a dispatcher.
void segment(benchmark::State& state) {
  const auto jobs = static_cast<std::size_t>(state.range(0));
  entry_pool pool(jobs + 16);
  std::deque<waitlist> lists;
  for (std::size_t i = 0; i < jobs; ++i) lists.emplace_back(pool);
  std::array<const operation*, 64> buffer{};
  std::size_t at = 0, operations = 0;
  for (auto _ : state) {
    waitlist& w = lists[at];
    at = at + 1 < jobs ? at + 1 : 0;
    if (w.pending() == 0) {
      if (const auto e = w.launch(stream_default, model()))
        state.SkipWithError(e.message().c_str());
    }
    const auto next = w.measure(quantum, 64); // the facts for the policy
    const auto c = w.try_cut(next, quantum, buffer);
    operations += c->operations.size();
    w.done(c->stream, c->operations.size());
  }
  state.counters["operations_per_segment"] =
      static_cast<double>(operations) / static_cast<double>(state.iterations());
}
BENCHMARK(segment)->Name("waitlist/segment/wall")->ArgName("jobs")->Arg(1)->Arg(1000)->Arg(100000);

/// Launch, cut and done of single operations over several streams; every 16th in the legacy stream.
void loose(benchmark::State& state) {
  const auto streams = static_cast<std::size_t>(state.range(0));
  constexpr std::size_t batch = 4096;
  entry_pool pool(batch + 16);
  waitlist w(pool);
  std::vector<stream_id> ids{stream_default};
  while (ids.size() < streams) {
    stream_id s{};
    if (const auto e = w.create_stream(stream_kind::blocking, s))
      state.SkipWithError(e.message().c_str());
    ids.push_back(s);
  }
  operation op;
  std::array<const operation*, 1> buffer{};
  for (auto _ : state) {
    duration sum{}, expected{};
    for (std::size_t i = 0; i < batch; ++i) {
      op.expected = duration{static_cast<int>(1000 + i)};
      expected += op.expected;
      const stream_id s = i % 16 == 0 ? stream_default : ids[i % streams];
      if (w.launch(s, op)) require(false, "launch failed");
    }
    while (const auto c = w.try_cut(duration{1}, buffer)) {
      sum += c->expected;
      w.done(c->stream, 1);
    }
    require(w.idle() && sum == expected, "the waitlist lost an operation");
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(batch));
}
BENCHMARK(loose)->Name("waitlist/operation/wall")->ArgName("streams")->Arg(1)->Arg(8)->Arg(2048);

void loose_graph(benchmark::State& state) {
  const auto streams = static_cast<std::size_t>(state.range(0));
  constexpr std::size_t batch = 4096;
  for (auto _ : state) {
    dependency_graph g(streams);
    duration sum{}, expected{};
    for (std::size_t i = 0; i < batch; ++i) {
      const duration d{static_cast<int>(1000 + i)};
      expected += d;
      const bool legacy = i % 16 == 0;
      g.launch(legacy ? 0 : i % streams, d, legacy || i % streams == 0);
    }
    while (g.run_one(sum)) {
    }
    require(sum == expected, "the dependency graph lost an operation");
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(batch));
}
BENCHMARK(loose_graph)
    ->Name("dependency_graph/operation/wall")
    ->ArgName("streams")
    ->Arg(1)
    ->Arg(8)
    ->Arg(2048);

/// A wait for a record of another stream, around a ring of streams.
void events(benchmark::State& state) {
  const auto streams = static_cast<std::size_t>(state.range(0));
  entry_pool pool(4 * streams + 16);
  waitlist w(pool);
  std::vector<stream_id> ids(streams);
  std::vector<event_id> marks;
  for (stream_id& s : ids) {
    if (w.create_stream(stream_kind::non_blocking, s)) require(false, "no stream");
    marks.push_back(w.create_event());
  }
  const operation op;
  std::array<const operation*, 1> buffer{};
  for (auto _ : state) {
    bool fine = true;
    for (std::size_t i = 0; i < streams; ++i) {
      if (i > 0) fine = fine && !w.wait(ids[i], marks[i - 1]);
      fine = fine && !w.launch(ids[i], op) && !w.record(marks[i], ids[i]);
    }
    std::size_t n = 0;
    for (; auto c = w.try_cut(duration{1}, buffer); ++n) w.done(c->stream, 1);
    require(fine && n == streams && w.idle(), "the chain broke");
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(streams));
}
BENCHMARK(events)->Name("waitlist/event_chain/wall")->ArgName("streams")->Arg(8)->Arg(1024);

} // namespace

BENCHMARK_MAIN();
