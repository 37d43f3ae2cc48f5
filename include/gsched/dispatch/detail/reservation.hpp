// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/id.hpp>
#include <gsched/core/inline_vector.hpp>
#include <gsched/core/quantity.hpp>
#include <gsched/core/time.hpp>
#include <gsched/job/program.hpp>
#include <gsched/preempt/options.hpp>
#include <gsched/preempt/reserve_choice.hpp>
#include <gsched/preempt/time_alone.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace gsched {

/// Decides which programs have long kernels, and how many SMs the best-effort jobs of each model
/// leave to real-time work while they run such programs: the index of an alternate of lane_feed, 0
/// for none.
///
/// Real-time jobs are measured one at a time: their time relative to their time alone, and the work
/// that ran when they began. A measurement is valid if no other real-time job was in flight when
/// the job began, and nothing was submitted beside it. If work of several models runs, the work
/// that leaves the fewest SMs delays the job, so the measurement counts for the models of that
/// work.
///
/// Cost     O(1) each, or O(models) once for each real-time job; load and add_model allocate.
/// Threads  one owner; no locking. The state depends on the calls alone.
class reservation {
public:
  reservation(const preemption_options& how, sm_count all) : options_(how), all_(all) {
    static_assert(decltype(how.reserve)::capacity() == reserve_choice::most_sizes);
  }

  /// Whether long programs may leave SMs unused.
  [[nodiscard]] bool on() const noexcept { return !options_.reserve.empty(); }
  /// Whether their number is learned.
  [[nodiscard]] bool learns() const noexcept { return on() && options_.reserve_learns; }
  /// Whether long programs are queued differently from others.
  [[nodiscard]] bool bounds() const noexcept { return on() || options_.one_long; }

  /// Called after the device has set the program's id. Set-up.
  void load(const program& p) {
    if (!bounds()) return;
    if (index(p.id()) >= long_.size()) long_.resize(index(p.id()) + std::size_t{1});
    long_[index(p.id())] = p.longest_kernel() >= options_.long_operation;
  }
  /// Called before the first job of a model. Allocates for a larger model number than before.
  void add_model(std::size_t model) {
    if (!bounds()) return;
    const reserve_target to{options_.reserve_slow_down, options_.reserve_tail,
                            options_.reserve_share};
    while (models_.size() <= model)
      models_.push_back(
          {reserve_choice({options_.reserve.data(), options_.reserve.size()}, all_, to)});
  }

  [[nodiscard]] bool is_long(program_id p) const noexcept {
    return p != no_program && index(p) < long_.size() && long_[index(p)];
  }
  /// Whether best-effort jobs of the model have run long programs.
  [[nodiscard]] bool is_long_model(std::size_t model) const noexcept {
    return model < models_.size() && models_[model].is_long;
  }

  /// The alternate for a best-effort job whose next program is long. `near`: a real-time job is
  /// expected while it runs.
  [[nodiscard]] std::size_t alternate_for(std::size_t model, bool near) noexcept {
    known_model& m = models_[model];
    if (!std::exchange(m.is_long, true))
      for (known_model& other : models_)
        if (&other != &m && other.is_long) other.choice.forget();
    m.in_use = true;
    if (!options_.reserve_learns) return 1;
    return near ? m.choice.current() : 0;
  }

  /// The rest of such a segment after it has run for `ran`, as time on the whole device.
  [[nodiscard]] duration left_of(std::size_t model, std::size_t alternate, duration work,
                                 duration ran) const noexcept {
    const double done = static_cast<double>(ran.count()) * models_[model].choice.speed(alternate);
    return std::max(duration::zero(), work - duration{static_cast<duration::rep>(done)});
  }
  /// A long segment of a best-effort job has ended. `took`: its time on the lane; unset if a
  /// real-time job was there meanwhile. `expected`: a real-time job was expected when the segment
  /// was submitted.
  void did(std::size_t model, std::size_t alternate, duration work, std::optional<duration> took,
           bool expected) noexcept {
    models_[model].choice.did(alternate, work, took, expected);
  }

  // Real-time jobs ----------------------------------------------------------------------------

  /// The best-effort work that runs when a real-time job begins.
  struct running {
    bool any = false;
    bool unexpected = false; ///< some of it was submitted when no real-time job was expected
    duration left{};         ///< remaining time of all long work, on the whole device
    std::size_t least = 0;   ///< alternate of the long work that leaves the fewest SMs
    inline_vector<std::uint32_t, 8> of_least{}; ///< models of that work

    void add_other() noexcept { any = true; }
    void add_long(std::uint32_t model, std::size_t alternate, duration still,
                  bool expected) noexcept {
      any = true;
      unexpected = unexpected || !expected;
      left += still;
      if (of_least.empty() || alternate < least) {
        of_least.clear();
        least = alternate;
      }
      if (alternate > least || of_least.full() ||
          std::find(of_least.begin(), of_least.end(), model) != of_least.end())
        return;
      of_least.push_back(model);
    }
  };
  /// The first segment of a real-time job is submitted, while no other real-time job is in flight.
  /// `without`: the time without real-time jobs since the last call.
  void began(job_id id, std::size_t model, const running& found, duration without) noexcept {
    constexpr duration long_enough = std::chrono::milliseconds{100}; // a longer pause is no gap
    followed_ = {id, model, found, std::min(without, long_enough)};
    follows_ = true;
  }
  /// Other work is submitted or resumes beside the measured job: the measurement is invalid.
  void disturb() noexcept { follows_ = false; }

  /// A job has ended whose segments took `took` on their lanes.
  void ended(job_id id, bool finished, duration expected, duration took) noexcept {
    if (!follows_ || followed_.id != id) return;
    follows_ = false;
    if (!finished || expected <= duration::zero()) return;
    known_model& m = models_[followed_.model];
    const double ratio = static_cast<double>(took.count()) / static_cast<double>(expected.count());
    const bool fresh = m.alone.jobs() == 0;
    m.alone.learn(ratio, !followed_.found.any);
    if (fresh)
      for (known_model& other : models_)
        if (other.is_long) other.choice.forget();
    if (!m.alone.known() || followed_.found.unexpected) return;
    const double alone_ns = m.alone.ratio() * static_cast<double>(expected.count());
    learn(ratio / m.alone.ratio() - 1, duration{static_cast<duration::rep>(alone_ns)});
  }

  /// The learned state of a model's jobs.
  [[nodiscard]] const reserve_choice& choice_of(std::size_t model) const noexcept {
    return models_[model].choice;
  }
  /// The SMs that the model's long work leaves unused while real-time jobs are expected.
  [[nodiscard]] sm_count chosen(std::size_t model) const noexcept {
    if (!on() || !is_long_model(model)) return {};
    const std::size_t alternate = learns() ? models_[model].choice.chosen() : 1;
    return alternate == 0 ? sm_count{} : options_.reserve[alternate - 1];
  }

private:
  struct known_model {
    reserve_choice choice;
    time_alone alone{};
    bool is_long = false;
    bool in_use = false; ///< it dispatched long work since the last real-time job
  };
  struct followed_job {
    job_id id{};
    std::size_t model = 0;
    running found{};
    duration without{};
  };

  void learn(double slow_down, duration alone) noexcept {
    const running& r = followed_.found;
    for (known_model& m : models_)
      if (m.is_long) m.choice.cycle(followed_.without, alone);
    for (const std::uint32_t i : r.of_least) models_[i].choice.found(r.least, r.left, slow_down);
    for (std::uint32_t i = 0; i < models_.size(); ++i) {
      if (!std::exchange(models_[i].in_use, false)) continue;
      if (r.of_least.empty())
        models_[i].choice.found_none();
      else if (std::find(r.of_least.begin(), r.of_least.end(), i) == r.of_least.end())
        models_[i].choice.found_other();
    }
  }

  const preemption_options& options_;
  sm_count all_;
  std::vector<bool> long_;          ///< by program id
  std::vector<known_model> models_; ///< by model id
  followed_job followed_{};
  bool follows_ = false;
};

} // namespace gsched
