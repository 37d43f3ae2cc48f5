// SPDX-License-Identifier: Apache-2.0
#include "case_run.hpp"
#include "lane_work.hpp"

#include <gsched/core/error.hpp>
#include <gsched/cuda/device.hpp>
#include <gsched/cuda/error.hpp>
#include <gsched/cuda/program.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>

namespace preemption_torture {

namespace cuda = gsched::cuda;
using experiment::seconds_now;
using work_graph::built_graph;

namespace {

/// A lane that yields, with counters of its calls and events.
struct yielding_lane {
  explicit yielding_lane(lane_work w) : work(std::move(w)) {}

  lane_work work;
  std::uint64_t yields = 0;
  std::uint64_t yielded = 0;
  std::uint64_t resumes = 0;
  std::uint64_t resumed = 0;
  std::uint64_t ended_when_it_stood = 0;
  std::uint64_t released_before_stop =
      0; ///< lanes that the device released before this lane stopped

  [[nodiscard]] bool is_held() const noexcept { return yields > resumes; }
  [[nodiscard]] bool stands() const noexcept { return is_held() && yielded == yields; }
};

/// Thrown while a case runs if the device broke its contract: see live_case::wrong().
struct contract_broken {};

class live_case {
public:
  live_case(const torture_case& c, std::vector<built_graph>& best_effort,
            std::vector<built_graph>& urgent, double hang_seconds)
      : case_(c), hang_s_(hang_seconds), random_(c.seed ^ 0x5bd1e995u), best_effort_(best_effort),
        urgent_(urgent) {}

  /// Programs, the device, its lanes.
  ///
  /// Errors   gsched::error: refusals of the library.
  void set_up() {
    for (built_graph& g : best_effort_) programs_.push_back(program_of("best_effort", g));
    for (built_graph& g : urgent_) programs_.push_back(program_of("urgent", g));
    for (built_graph& g : best_effort_) g.reset(); // measuring has run the graphs
    for (built_graph& g : urgent_) g.reset();
    cuda::check(cudaDeviceSynchronize(), "memory of graphs");
    cuda::device_options how;
    how.grain = gsched::from_us(case_.grain_us);
    how.levels = case_.levels;
    how.whole = true;
    how.gate_every = case_.gate_every;
    how.watchdog = std::chrono::seconds{30}; // hangs are detected here before
    device_.emplace(how);
    std::vector<gsched::lane_id> lanes;
    for (unsigned i = 0; i < case_.lanes; ++i) lanes.push_back(device_->open_lane({0, {}, true}));
    for (unsigned i = 0; i < case_.urgent_lanes; ++i)
      lanes.push_back(device_->open_lane({1, {}, false}));
    for (std::unique_ptr<cuda::program>& p : programs_) device_->load(*p);
    for (std::uint32_t i = 0; i < lanes.size(); ++i) {
      const bool yields = i < case_.lanes;
      lane_work w(*device_, lanes[i], programs_[i]->host(), yields ? case_.quantum_us : 0, i);
      if (yields)
        lanes_.emplace_back(std::move(w));
      else
        requests_.push_back(std::move(w));
    }
    const double each_ns = work_graph::oracle::cost_ns(case_.best_effort);
    most_runs_ = std::max<std::uint64_t>(static_cast<std::uint64_t>(1.5e9 / each_ns), 20);
  }

  void warm_up(outcome& o) {
    constexpr int times = 5;
    std::vector<double> alone;
    for (int k = 0; k < times; ++k)
      for (lane_work& r : requests_) alone.push_back(request(r, "alone"));
    o.alone_us = experiment::median(alone);
    for (yielding_lane& l : lanes_) l.work.feed(case_.ahead, 1);
    wait(
        [&] {
          return std::all_of(lanes_.begin(), lanes_.end(),
                             [](const yielding_lane& l) { return l.work.idle(); });
        },
        "the best-effort graphs, run once without a yield,");
    feeds_ = true;
  }

  void round(outcome& o) {
    run_for(random_.log_uniform(1, 2000));
    std::vector<yielding_lane*> chosen;
    for (yielding_lane& l : lanes_)
      if (!l.is_held() && (lanes_.size() == 1 || !random_.one_in(4))) chosen.push_back(&l);
    for (yielding_lane* l : chosen) {
      o.seen.preemptions += l->work.idle() ? 0u : 1u;
      ++l->yields;
      device_->yield(l->work.lane());
      if (random_.one_in(4)) run_for(random_.log_uniform(1, 30));
    }
    if (random_.one_in(2)) o.beside_us.push_back(request(any_request(), "while lanes yield"));
    wait(
        [&] {
          return std::all_of(chosen.begin(), chosen.end(),
                             [](const yielding_lane* l) { return l->stands(); });
        },
        "lane_yielded, expected for each lane after a yield,");
    const bool all_stand = std::all_of(lanes_.begin(), lanes_.end(),
                                       [](const yielding_lane& l) { return l.stands(); });
    for (unsigned k = random_.below(4); k > 0; --k) {
      const double us = request(any_request(), all_stand ? "while all lanes stand" : "beside");
      (all_stand ? o.standing_us : o.beside_us).push_back(us);
    }
    if (requests_.size() > 1 && random_.one_in(3)) all_requests();
    run_for(random_.log_uniform(1, 200));
    for (std::size_t k = chosen.size(); k > 1; --k)
      std::swap(chosen[k - 1], chosen[random_.below(k)]);
    for (yielding_lane& l : lanes_) // those that stayed held before
      if (l.is_held() && std::find(chosen.begin(), chosen.end(), &l) == chosen.end())
        chosen.push_back(&l);
    for (yielding_lane* l : chosen) {
      if (lanes_.size() > 1 && random_.one_in(8)) continue; // until the next round
      resume(*l);
      if (random_.one_in(4)) run_for(random_.log_uniform(1, 30));
    }
    if (random_.one_in(2)) wait_for_resumed();
    for (unsigned k = random_.below(24); k > 0; --k) preempt_briefly(o);
    ++o.seen.rounds;
  }

  /// Runs all started runs to their ends.
  void finish(outcome& o) {
    for (yielding_lane& l : lanes_)
      if (l.is_held()) resume(l);
    wait_for_resumed();
    double us = 0;
    for (yielding_lane& l : lanes_) {
      us +=
          work_graph::expected_us(case_.best_effort) * static_cast<double>(1 + l.work.in_flight());
      o.seen.runs += l.work.runs_begun();
    }
    ending_ = true;
    wait(
        [&] {
          return std::all_of(lanes_.begin(), lanes_.end(), [](const yielding_lane& l) {
            return l.work.idle() && l.work.runs_ended() == l.work.runs_begun();
          });
        },
        "the best-effort graphs, resumed for the last time,", 4e-6 * us);
    o.seen.stopped = device_->statistics().stopped;
    o.seen.expired_leases = device_->statistics().expired_leases;
    o.seen.opened = device_->statistics().opened;
    o.left.best_effort = case_.best_effort;
    o.left.urgent = case_.urgent;
    for (std::size_t i = 0; i < lanes_.size(); ++i)
      o.left.best_effort_lanes.push_back({lanes_[i].work.runs_begun(), best_effort_[i].read()});
    for (std::size_t i = 0; i < requests_.size(); ++i)
      o.left.urgent_lanes.push_back({requests_[i].runs_begun(), urgent_[i].read()});
  }

  /// The violation of the device's contract; empty if there is none.
  [[nodiscard]] std::string wrong() const {
    if (!wrong_.empty()) return wrong_;
    for (const yielding_lane& l : lanes_)
      if (!l.work.wrong().empty()) return l.work.wrong() + ended_by();
    for (const lane_work& r : requests_)
      if (!r.wrong().empty()) return r.wrong() + ended_by();
    return {};
  }

private:
  /// Lanes yield and resume at once, without urgent work.
  void preempt_briefly(outcome& o) {
    run_for(random_.log_uniform(1, 300));
    std::vector<yielding_lane*> chosen;
    for (yielding_lane& l : lanes_)
      if (!l.is_held() && !random_.one_in(3)) chosen.push_back(&l);
    for (yielding_lane* l : chosen) {
      o.seen.preemptions += l->work.idle() ? 0u : 1u;
      ++l->yields;
      device_->yield(l->work.lane());
    }
    if (random_.one_in(2)) run_for(random_.log_uniform(1, 50));
    for (yielding_lane* l : chosen) resume(*l);
  }

  [[nodiscard]] std::unique_ptr<cuda::program> program_of(const char* name, const built_graph& g) {
    cuda::program_options how;
    how.name = name;
    if (!case_.measured) how.durations = g.durations();
    return std::make_unique<cuda::program>(g.get(), how);
  }

  [[nodiscard]] std::string ended_by() const {
    return device_->failure() ? " (" + *device_->failure() + ")" : std::string();
  }

  void poll() {
    using kind = gsched::device_event::kind;
    std::array<gsched::device_event, 32> out;
    // In this order: a poll may report that a lane has stopped, and then release it.
    const std::uint64_t gone_before = let_go();
    const std::size_t n = device_->poll(out);
    for (std::size_t i = 0; i < n; ++i) {
      const gsched::device_event& e = out[i];
      if (e.what == kind::lane_yielded || e.what == kind::lane_resumed) {
        handle_lane_event(e, gone_before);
        continue;
      }
      const auto number = static_cast<std::size_t>(gsched::index(e.segment) >> 40);
      if (number < lanes_.size())
        lanes_[number].work.handle(e);
      else
        requests_[number - lanes_.size()].handle(e);
    }
    for (yielding_lane& l : lanes_)
      if (l.stands() && l.work.ended() != l.ended_when_it_stood &&
          let_go() == l.released_before_stop)
        wrong_ = "a best-effort segment ended while its lane stood";
    // Otherwise a gate and urgent work that wait for each other would pass after two leases.
    if (device_->statistics().expired_leases > 0) wrong_ = "a lease ran out";
    if (!wrong().empty()) throw contract_broken{};
  }

  /// The number of lanes that the device has released so far, for urgent work that needs their SMs,
  /// or because a lease expired: their segments end although they yield.
  [[nodiscard]] std::uint64_t let_go() const {
    return device_->statistics().opened + device_->statistics().expired_leases;
  }

  void handle_lane_event(const gsched::device_event& e, std::uint64_t gone_before) {
    const auto l = std::find_if(lanes_.begin(), lanes_.end(),
                                [&](const yielding_lane& y) { return y.work.lane() == e.lane; });
    if (l == lanes_.end()) {
      wrong_ = "an event of a lane that does not yield";
    } else if (e.what == gsched::device_event::kind::lane_yielded) {
      if (++l->yielded > l->yields) wrong_ = "lane_yielded without a yield";
      l->ended_when_it_stood = l->work.ended();
      l->released_before_stop = gone_before;
    } else if (++l->resumed > l->resumes) {
      wrong_ = "lane_resumed without a resume";
    }
  }

  void feed() {
    if (!feeds_) return;
    for (yielding_lane& l : lanes_)
      if (!l.is_held())
        l.work.feed(case_.ahead,
                    ending_ ? l.work.runs_begun() : std::max(most_runs_, l.work.runs_begun()));
  }

  void run_for(double us) {
    const double until = seconds_now() + 1e-6 * us;
    do {
      feed();
      poll();
    } while (seconds_now() < until);
  }

  template <class Done>
  void wait(const Done& done, const std::string& what, double more_s = 0) {
    const double until = seconds_now() + hang_s_ + more_s;
    while (!done()) {
      if (seconds_now() > until)
        throw hang(fmt::format("{} did not end in {:.1f} s; {}", what, hang_s_ + more_s, state()),
                   false);
      feed();
      poll();
    }
  }

  [[nodiscard]] lane_work& any_request() { return requests_[random_.below(requests_.size())]; }

  /// From its submission until its end was observed; microseconds.
  double request(lane_work& r, const std::string& when) {
    const double from = seconds_now();
    r.feed(1, r.runs_begun() + 1);
    wait([&] { return r.idle(); }, "the urgent graph, submitted " + when + ",");
    return (seconds_now() - from) * 1e6;
  }
  void all_requests() {
    for (lane_work& r : requests_) r.feed(1, r.runs_begun() + 1);
    wait(
        [&] {
          return std::all_of(requests_.begin(), requests_.end(),
                             [](const lane_work& r) { return r.idle(); });
        },
        "urgent graphs on all their lanes at once");
  }

  void resume(yielding_lane& l) {
    wait([&] { return l.stands(); }, "lane_yielded, expected before a resume,");
    ++l.resumes;
    device_->resume(l.work.lane());
  }
  void wait_for_resumed() {
    wait(
        [&] {
          return std::all_of(lanes_.begin(), lanes_.end(),
                             [](const yielding_lane& l) { return l.resumed == l.resumes; });
        },
        "lane_resumed, expected for each lane after a resume,");
  }

  [[nodiscard]] std::string state() const {
    std::string s = "lanes:";
    for (const yielding_lane& l : lanes_)
      s += fmt::format(" {} ({} in flight, {} operations ended)",
                       l.stands()              ? "stands"
                       : l.is_held()           ? "yields"
                       : l.resumed < l.resumes ? "resumes"
                                               : "runs",
                       l.work.in_flight(), l.work.ended());
    for (const lane_work& r : requests_)
      s += fmt::format(", urgent {} in flight of {} runs", r.in_flight(), r.runs_begun());
    return s;
  }

  const torture_case& case_;
  double hang_s_;
  work_graph::random_source random_;
  std::vector<built_graph>& best_effort_;
  std::vector<built_graph>& urgent_;
  std::vector<std::unique_ptr<cuda::program>> programs_; ///< they outlive the device
  std::optional<cuda::device> device_;
  std::vector<yielding_lane> lanes_;
  std::vector<lane_work> requests_;
  std::string wrong_;
  std::uint64_t most_runs_ = 0;
  bool feeds_ = false;  ///< best-effort lanes are kept busy
  bool ending_ = false; ///< up to the ends of the started runs
};

/// Runs of a graph by CUDA alone, one after another. They must leave the expected memory.
void run_alone(built_graph& g, const work_graph::graph& of, unsigned runs, double hang_seconds) {
  g.reset();
  const std::string what = "graph " + of.name;
  cudaStream_t on = nullptr;
  cudaGraphExec_t exec = nullptr;
  cuda::check(cudaDeviceSynchronize(), what.c_str());
  cuda::check(cudaGraphInstantiate(&exec, g.get(), cudaGraphInstantiateFlagUseNodePriority),
              what.c_str());
  cuda::check(cudaStreamCreateWithFlags(&on, cudaStreamNonBlocking), what.c_str());
  work_graph::oracle expected(of);
  for (unsigned run = 0; run < runs; ++run) {
    cuda::check(cudaGraphLaunch(exec, on), what.c_str());
    const double until = seconds_now() + hang_seconds + 4e-6 * work_graph::expected_us(of);
    cudaError_t e = cudaErrorNotReady;
    while ((e = cudaStreamQuery(on)) == cudaErrorNotReady)
      if (seconds_now() > until) throw hang(what + " does not end when CUDA alone runs it", true);
    cuda::check(e, what.c_str());
    expected.run();
  }
  cuda::check(cudaGraphExecDestroy(exec), what.c_str());
  cuda::check(cudaStreamDestroy(on), what.c_str());
  const std::string wrong = work_graph::difference(of, g.read(), expected);
  if (!wrong.empty())
    throw gsched::error(gsched::errc::device_failed,
                        fmt::format("{}, run {} times by CUDA alone", wrong, runs));
}

std::string compare(const work_graph::graph& g, std::vector<evidence::lane>& lanes) {
  std::vector<std::size_t> by_runs(lanes.size());
  for (std::size_t i = 0; i < lanes.size(); ++i) by_runs[i] = i;
  std::sort(by_runs.begin(), by_runs.end(),
            [&](std::size_t a, std::size_t b) { return lanes[a].runs < lanes[b].runs; });
  work_graph::oracle expected(g);
  std::uint64_t done = 0;
  for (const std::size_t i : by_runs) {
    for (; done < lanes[i].runs; ++done) expected.run();
    const std::string wrong = work_graph::difference(g, lanes[i].found, expected);
    if (!wrong.empty())
      return fmt::format("{}; lane {} of {}, after {} runs", wrong, i, lanes.size(), done);
  }
  return {};
}

} // namespace

std::string verify(evidence e) {
  const std::string wrong = compare(e.best_effort, e.best_effort_lanes);
  return wrong.empty() ? compare(e.urgent, e.urgent_lanes) : wrong;
}

outcome run_case(const torture_case& c, const work_graph::gpu_facts& gpu,
                 work_graph::memory_pool& memory, experiment::watchdog& dog, double hang_seconds,
                 unsigned alone_runs) {
  const auto step = [&](const std::string& what, double seconds) {
    dog.step(fmt::format("case {}: {}", c.seed, what), seconds);
  };
  outcome o;
  std::vector<built_graph> best_effort;
  std::vector<built_graph> urgent;
  memory.take_all_back();
  step("its graphs", 60);
  try {
    for (unsigned i = 0; i < c.lanes; ++i) best_effort.emplace_back(c.best_effort, gpu, memory);
    for (unsigned i = 0; i < c.urgent_lanes; ++i) urgent.emplace_back(c.urgent, gpu, memory);
    run_alone(best_effort[0], c.best_effort, alone_runs, hang_seconds);
    run_alone(urgent[0], c.urgent, alone_runs, hang_seconds);
  } catch (const gsched::error& wrong) {
    static_cast<void>(cudaGetLastError());
    o.skipped = wrong.what();
    return o;
  }
  live_case live(c, best_effort, urgent, hang_seconds);
  step("its programs and lanes", 120);
  try {
    live.set_up();
  } catch (const gsched::error& wrong) {
    static_cast<void>(cudaGetLastError());
    o.refused = wrong.what();
    return o;
  }
  try {
    step("runs without yields", 60);
    live.warm_up(o);
    for (unsigned r = 0; r < c.rounds; ++r) {
      step(fmt::format("round {}", r), 4 * hang_seconds + 10);
      live.round(o);
    }
    step("its last runs", 60);
    live.finish(o);
    step("its end", 30);
  } catch (const contract_broken&) {
    o.difference = live.wrong();
    step("its end", 60);
  }
  return o;
}

} // namespace preemption_torture
