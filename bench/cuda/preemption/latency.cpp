// SPDX-License-Identifier: Apache-2.0
#include "kernels.hpp"
#include "run.hpp"

#include <gsched/core/error.hpp>
#include <gsched/cuda/driver.hpp>
#include <gsched/cuda/error.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <atomic>
#include <optional>
#include <random>
#include <system_error>
#include <vector>

namespace preemption_bench {

namespace {

using experiment::seconds_now;
using nlohmann::json;
using end_kind = cuda::preemption_end::kind;

void must(std::error_code e, const char* what) {
  if (e) cuda::fail(e, what);
}

void clear(std::uint32_t* word) { std::atomic_ref(*word).store(0, std::memory_order_release); }
void await(const std::uint32_t* word) {
  while (std::atomic_ref(*const_cast<std::uint32_t*>(word)).load(std::memory_order_acquire) == 0) {
  }
}

struct exec {
  cudaGraphExec_t graph = nullptr;
  explicit exec(cudaGraphExec_t g) : graph(g) {}
  ~exec() { cudaGraphExecDestroy(graph); }
  exec(const exec&) = delete;
  exec& operator=(const exec&) = delete;
  void launch(cudaStream_t on) const { cuda::check(cudaGraphLaunch(graph, on), "launch"); }
};

/// A kernel of long blocks that fill the GPU, always there but when it was preempted.
class filling_work {
public:
  filling_work(stage& s, const options& o)
      : stage_(s), blocks_(4 * s.sms), running_(s.pinned()),
        books_{running_, s.device<std::uint32_t>(blocks_), s.device<std::uint32_t>(1),
               s.device<std::uint64_t>(blocks_)},
        launch_(make_filling(who_, blocks_, cycles, o.step, books_)) {}

  [[nodiscard]] unsigned blocks() const noexcept { return blocks_; }

  /// From the decision to go on until a block runs again, seen here.
  struct restored {
    double us = 0;
    bool flag_was_down = false; ///< else it was cleared on the way
  };
  /// Goes on, or starts, and has run for a random time. Unset if it starts.
  std::optional<restored> go() {
    clear(running_);
    const bool down = down_;
    const double from = seconds_now();
    if (!down) must(who_.let_run(stage_.best_effort), "flag");
    down_ = false;
    must(left_ ? launch_.resume(stage_.best_effort) : launch_.start(stage_.best_effort), "launch");
    await(running_);
    const double took = (seconds_now() - from) * 1e6;
    const double until = seconds_now() + 1e-6 * (20 + 80 * instant_(random_));
    while (seconds_now() < until) {
    }
    return left_ ? std::optional(restored{took, down}) : std::nullopt;
  }
  void preempt() { must(who_.preempt(), "flag"); }
  /// Until all are gone. False: it had just ended.
  bool gone() {
    const cuda::preemption_end e = launch_.wait();
    left_ = e.what == end_kind::preempted;
    // In turn at once, when nobody waits for it, and when the work goes on.
    if (left_ && ++turn_ % 2 == 0) {
      must(who_.let_run(stage_.best_effort), "flag");
      down_ = true;
    }
    return left_;
  }
  [[nodiscard]] std::uint32_t rerun() const {
    std::uint32_t n = 0;
    cuda::check(cudaMemcpy(&n, books_.rerun, sizeof n, cudaMemcpyDeviceToHost), "count");
    return n;
  }
  /// Lets it end. How many blocks have not ended just once.
  [[nodiscard]] std::uint32_t finish() {
    while (left_) {
      static_cast<void>(go());
      gone();
    }
    std::vector<std::uint32_t> ended(blocks_);
    cuda::check(cudaMemcpy(ended.data(), books_.ended, blocks_ * sizeof(std::uint32_t),
                           cudaMemcpyDeviceToHost),
                "count");
    std::uint32_t n = 0;
    for (const std::uint32_t e : ended) n += e != 1;
    forget();
    return n;
  }

private:
  /// For the next time, none has ended.
  void forget() {
    const std::vector<std::uint32_t> zeros(blocks_);
    cuda::check(cudaMemcpy(books_.ended, zeros.data(), blocks_ * sizeof(std::uint32_t),
                           cudaMemcpyHostToDevice),
                "count");
  }

  static constexpr std::uint64_t cycles = 20'000'000; // 10 ms

  stage& stage_;
  unsigned blocks_;
  std::uint32_t* running_;
  books books_;
  cuda::tenant who_;
  cuda::preemptible_launch launch_;
  bool left_ = false;
  bool down_ = false; ///< the flag
  unsigned turn_ = 0;
  std::mt19937_64 random_{7};
  std::uniform_real_distribution<double> instant_{0, 1};
};

/// Decision to all gone and back again, by the library.
void by_library(stage& s, const options& o, json& out) {
  filling_work work(s, o);
  std::vector<double> gone, back, back_by_flag;
  std::uint32_t lost = 0;
  s.dog.step("preempting a kernel that fills the GPU", 60);
  while (gone.size() < o.repeats) {
    if (const auto again = work.go())
      (again->flag_was_down ? back : back_by_flag).push_back(again->us);
    const double from = seconds_now();
    work.preempt();
    if (work.gone()) {
      gone.push_back((seconds_now() - from) * 1e6);
      continue;
    }
    lost += work.finish();
  }
  lost += work.finish();
  const std::uint32_t rerun = work.rerun();
  out["gone"].push_back(
      summary(fmt::format("decision -> all {} blocks gone", work.blocks()), gone));
  out["restore"] = summary("restore -> first unfinished block running, flag down before", back);
  out["restore_by_flag"] =
      summary("restore -> first unfinished block running, flag cleared first", back_by_flag);
  out["restore"]["rerun_blocks"] = rerun;
  out["restore"]["lost_blocks"] = lost;
  fmt::print("blocks that ran again though they had ended: {}; blocks lost: {}\n", rerun, lost);
  s.dog.rest();
}

/// The flag in device memory or in pinned memory of the host, all else by hand and alike.
void by_flag(stage& s, const options& o, json& out, bool pinned) {
  const unsigned blocks = 4 * s.sms;
  std::uint32_t* const running = s.pinned();
  std::uint32_t* const gone = s.pinned();
  std::uint32_t* const flag = pinned ? s.pinned() : s.device<std::uint32_t>(1);
  const by_hand h{flag, s.device<std::uint32_t>(1), gone};
  const exec work(make_filling_by_hand(blocks, 20'000'000, o.step, h, running));
  const auto set = [&](unsigned to) {
    if (pinned)
      std::atomic_ref(*flag).store(to, std::memory_order_release);
    else
      cuda::check(cuda::driver().cuStreamWriteValue32(s.real_time,
                                                      reinterpret_cast<CUdeviceptr>(flag), to, 0),
                  "flag");
  };
  std::mt19937_64 random(8);
  std::uniform_real_distribution<double> instant(20e-6, 100e-6);
  std::vector<double> us;
  s.dog.step("preempting by hand", 60);
  while (us.size() < o.repeats) {
    set(0);
    cuda::check(cudaStreamSynchronize(s.real_time), "flag");
    clear(running);
    clear(gone);
    work.launch(s.best_effort);
    await(running);
    const double until = seconds_now() + instant(random);
    while (seconds_now() < until) {
    }
    const double from = seconds_now();
    set(1);
    await(gone);
    us.push_back((seconds_now() - from) * 1e6);
    cuda::check(cudaStreamSynchronize(s.best_effort), "work");
  }
  out["gone"].push_back(summary(pinned ? "by hand, flag in pinned memory of the host"
                                       : "by hand, flag in device memory",
                                us));
  s.dog.rest();
}

/// Decision to an urgent kernel of which all blocks run: on an idle GPU and on a full one, in turn.
void urgent(stage& s, const options& o, json& out) {
  std::uint32_t* const running = s.pinned();
  const exec rt(make_urgent(s.sms, s.device<std::uint32_t>(1), running));
  filling_work work(s, o);
  std::vector<double> idle, full, flag_last;
  const auto launch = [&] {
    rt.launch(s.real_time);
    await(running);
  };
  s.dog.step("an urgent kernel on a full GPU", 120);
  for (unsigned i = 0; i < o.repeats;) {
    clear(running);
    double from = seconds_now();
    launch();
    const double alone = (seconds_now() - from) * 1e6;
    cuda::check(cudaStreamSynchronize(s.real_time), "urgent");
    static_cast<void>(work.go());
    clear(running);
    from = seconds_now();
    const bool launch_first = i % 2 == 1;
    if (launch_first) rt.launch(s.real_time);
    work.preempt();
    if (!launch_first) rt.launch(s.real_time);
    await(running);
    const double took = (seconds_now() - from) * 1e6;
    cuda::check(cudaStreamSynchronize(s.real_time), "urgent");
    if (!work.gone()) {
      static_cast<void>(work.finish());
      continue;
    }
    idle.push_back(alone);
    (launch_first ? flag_last : full).push_back(took);
    ++i;
  }
  static_cast<void>(work.finish());
  json& rows = out["urgent"];
  rows.push_back(summary("urgent launch -> running, idle GPU", idle));
  rows.push_back(summary("urgent launch -> running, full GPU, flag before launch", full));
  rows.push_back(summary("urgent launch -> running, full GPU, launch before flag", flag_last));
  const double base = experiment::median(idle);
  out["urgent_ratio"] = {{"flag_before_launch", experiment::median(full) / base},
                         {"launch_before_flag", experiment::median(flag_last) / base}};
  fmt::print("ratio to idle: {:.3f} flag first, {:.3f} launch first\n",
             experiment::median(full) / base, experiment::median(flag_last) / base);
  s.dog.rest();
}

/// What a stream's priority does alone: blocks of 200 us that nobody tells to leave.
void by_priority(stage& s, const options& o, json& out) {
  std::uint32_t* const running = s.pinned();
  std::uint32_t* const filled = s.pinned();
  const exec rt(make_urgent(s.sms, s.device<std::uint32_t>(1), running));
  const exec work(make_filling_by_hand(16 * s.sms, 400'000, o.step, {}, filled));
  std::mt19937_64 random(9);
  std::uniform_real_distribution<double> instant(20e-6, 300e-6);
  std::vector<double> us;
  s.dog.step("priority alone", 60);
  for (unsigned i = 0; i < std::max(o.repeats / 10, 10u); ++i) {
    clear(filled);
    clear(running);
    work.launch(s.best_effort);
    await(filled);
    const double until = seconds_now() + instant(random);
    while (seconds_now() < until) {
    }
    const double from = seconds_now();
    rt.launch(s.real_time);
    await(running);
    us.push_back((seconds_now() - from) * 1e6);
    cuda::check(cudaDeviceSynchronize(), "work");
  }
  out["urgent"].push_back(
      summary("urgent launch -> running, full GPU, priority alone, blocks of 200 us", us));
  s.dog.rest();
}

} // namespace

void latencies(stage& s, const options& o, json& out) {
  fmt::print("\n{:<64} {:>8} {:>8} {:>8} {:>8} {:>9} {:>7}\n", "latency, us", "p10", "p50", "p90",
             "p99", "most", "n");
  by_library(s, o, out);
  by_flag(s, o, out, false);
  by_flag(s, o, out, true);
  urgent(s, o, out);
  by_priority(s, o, out);
}

} // namespace preemption_bench
