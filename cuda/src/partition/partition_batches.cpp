// SPDX-License-Identifier: Apache-2.0
#include "partition/partition_maker.hpp"

#include <gsched/core/error.hpp>
#include <gsched/cuda/gpu.hpp>
#include <gsched/cuda/partition/partition_batches.hpp>

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <utility>

namespace gsched::cuda {

namespace {

using clock = std::chrono::steady_clock;

/// How often the calling thread has lost its core to another one.
std::uint64_t preemptions() noexcept {
  rusage used{};
  return getrusage(RUSAGE_THREAD, &used) == 0 ? static_cast<std::uint64_t>(used.ru_nivcsw) : 0;
}

partition_batches_options checked(partition_batches_options o) {
  if (o.gpus.empty()) throw error(errc::bad_option, "partitions of no GPU, expected one");
  for (std::size_t m = 0; m < o.batches.size(); ++m) {
    const std::vector<std::uint32_t>& of = o.batches[m];
    const bool rises = std::adjacent_find(of.begin(), of.end(), std::greater_equal<>{}) == of.end();
    if (of.empty() || of.front() == 0 || !rises)
      throw error(errc::bad_option, "model " + std::to_string(m) +
                                        ": batches of programs, expected some that rise from 1 on");
  }
  for (const int g : o.gpus) static_cast<void>(find_gpu(g));
  return o;
}

} // namespace

struct partition_batches::state {
  struct slot {
    instance_pointer next;     ///< of the current plan; new batches run there
    std::uint32_t region = 0;  ///< of `next`, in the plan
    instance_pointer running;  ///< where a batch is running
    time_point launched{};     ///< its launch, or that of the last batch, returned
    time_point last_running{}; ///< it was last seen to run: a look later it had ended
    instance_pointer last;     ///< with traces: where the last batch ran
    batch_times times{};       ///< with traces: of the batch that runs, or of the last one
  };

  /// Notes what the owner's thread did while batches ran.
  void note(duration pause, duration launch) {
    for (const std::uint32_t i : running) {
      batch_times& t = slots[i].times;
      t.longest_pause = std::max(t.longest_pause, pause);
      t.longest_launch = std::max(t.longest_launch, launch);
    }
  }

  state(partition_batches_options o, program_source s)
      : options(checked(std::move(o))), source(std::move(s)), maker(options, source) {
    for (const auto& sizes : maker.group_sizes()) busy.emplace_back(sizes.size(), 0u);
  }

  /// Whether no batch runs on a partition's groups, except those of its region.
  [[nodiscard]] bool is_free(const slot& at) const noexcept {
    const partition_instance& s = *at.next;
    const auto& groups = s.where().groups;
    std::uint32_t of_region = 0;
    for (const std::uint32_t i : running) {
      const slot& other = slots[i];
      of_region += at.region != 0 && other.region == at.region && other.running == other.next &&
                   other.next->gpu() == s.gpu();
    }
    return std::all_of(groups.begin(), groups.end(),
                       [&](std::uint32_t g) { return busy[s.gpu()][g] == of_region; });
  }

  partition_batches_options options;
  program_source source;
  partition_maker maker;
  clock::time_point epoch = clock::now();
  time_point looked{}; ///< last poll for ends
  duration beginning{}, longest_begin{}, longest_pause{};
  std::vector<slot> slots;                      ///< by partition of the frontend
  std::vector<std::uint32_t> running;           ///< partitions with a running batch
  std::vector<std::vector<std::uint32_t>> busy; ///< by GPU and group: running batches
};

partition_batches::partition_batches(partition_batches_options o, program_source source)
    : state_(std::make_unique<state>(std::move(o), std::move(source))) {}
partition_batches::~partition_batches() = default;

void partition_batches::prepare(plan_chooser decide) { state_->maker.prepare(std::move(decide)); }
bool partition_batches::try_prepared() { return state_->maker.try_prepared(); }

void partition_batches::activate(std::span<const served_partition> partitions) {
  state& s = *state_;
  std::vector<partition_maker::ready_partition> left = s.maker.ready();
  s.slots.resize(std::max(s.slots.size(), partitions.size()));
  enum class match : std::uint8_t { same, these_models, more_models };
  const auto try_give = [&](std::size_t i, match how) {
    const served_partition& p = partitions[i];
    std::vector<std::size_t> models;
    for (const served_portion& of : p.portions) models.push_back(of.model);
    std::sort(models.begin(), models.end());
    const auto at = std::find_if(left.begin(), left.end(), [&](const auto& ready) {
      const partition_instance& has = *ready.instance;
      return has.gpu() == p.gpu && ready.region == p.region && has.where().sms == p.sms &&
             std::includes(has.where().models.begin(), has.where().models.end(), models.begin(),
                           models.end()) &&
             (how != match::same || ready.instance == s.slots[i].next) &&
             (how != match::these_models || has.where().models == models);
    });
    if (at == left.end()) return false;
    s.slots[i].next = std::move(at->instance);
    s.slots[i].region = p.region;
    left.erase(at);
    return true;
  };
  std::vector<bool> given(partitions.size(), false);
  for (const match how : {match::same, match::these_models, match::more_models})
    for (std::size_t i = 0; i < partitions.size(); ++i)
      if (partitions[i].planned && !given[i]) given[i] = try_give(i, how);
  for (std::size_t i = 0; i < partitions.size(); ++i) {
    if (partitions[i].planned && !given[i])
      throw error(errc::bad_option, "partition of " + std::to_string(partitions[i].sms.count()) +
                                        " SMs was not prepared, expected it to be");
    if (!partitions[i].planned) {
      s.slots[i].next.reset();
      s.slots[i].last.reset();
    }
  }
}

bool partition_batches::is_available(std::uint32_t partition) const noexcept {
  const state::slot& at = state_->slots[partition];
  return at.next == nullptr || at.running != nullptr || state_->is_free(at);
}

void partition_batches::begin(const batch_run& r) {
  state& s = *state_;
  state::slot& at = s.slots[r.partition];
  const time_point before = now();
  at.next->begin(r);
  const duration took = now() - before;
  s.beginning += took;
  s.longest_begin = std::max(s.longest_begin, took);
  if (s.options.traces) {
    s.note({}, took);
    at.times = {};
    at.times.launching = before;
    at.times.launched = before + took;
    at.times.preempted = preemptions();
  }
  at.launched = at.last_running = before + took;
  if (s.running.empty()) s.looked = at.launched;
  at.running = at.next;
  for (const std::uint32_t g : at.running->where().groups) ++s.busy[r.gpu][g];
  s.running.push_back(r.partition);
}

std::optional<std::uint32_t> partition_batches::try_end() {
  state& s = *state_;
  if (s.running.empty()) return std::nullopt;
  const time_point at_last = std::exchange(s.looked, now());
  s.longest_pause = std::max(s.longest_pause, s.looked - at_last);
  if (s.options.traces) s.note(s.looked - at_last, {});
  for (std::size_t i = 0; i < s.running.size(); ++i) {
    const std::uint32_t partition = s.running[i];
    state::slot& at = s.slots[partition];
    if (!at.running->try_end()) {
      at.last_running = s.looked;
      continue;
    }
    for (const std::uint32_t g : at.running->where().groups) --s.busy[at.running->gpu()][g];
    if (s.options.traces) {
      at.last = at.running;
      at.times.seen = now();
      at.times.preempted = preemptions() - at.times.preempted;
    }
    at.running.reset();
    s.running.erase(s.running.begin() + static_cast<std::ptrdiff_t>(i));
    return partition;
  }
  return std::nullopt;
}

std::optional<batch_times> partition_batches::times_of_last(std::uint32_t partition) const {
  const state::slot& at = state_->slots[partition];
  if (at.last == nullptr || at.running != nullptr) return std::nullopt;
  batch_times t = at.times;
  const auto as_told = [&](clock::time_point when) {
    return time_point{std::chrono::duration_cast<duration>(when - state_->epoch)};
  };
  if (const auto on_gpu = at.last->gpu_times()) {
    t.started = as_told(on_gpu->first);
    t.ended = as_told(on_gpu->second);
  }
  return t;
}

duration partition_batches::least_time_of_last(std::uint32_t partition) const noexcept {
  const state::slot& at = state_->slots[partition];
  return at.last_running - at.launched;
}

void partition_batches::wait(time_point t) {
  constexpr duration near = std::chrono::microseconds{150};
  state& s = *state_;
  if (!s.running.empty()) return; // the caller polls for ends
  while (!s.maker.is_done()) {
    const time_point at = now();
    if (at >= t) return;
    if (t - at > near) std::this_thread::sleep_for(std::chrono::microseconds{20});
  }
}

time_point partition_batches::now() const noexcept {
  return time_point{std::chrono::duration_cast<duration>(clock::now() - state_->epoch)};
}

partition_batches_statistics partition_batches::statistics() const noexcept {
  partition_batches_statistics all = state_->maker.statistics();
  all.beginning = state_->beginning;
  all.longest_begin = state_->longest_begin;
  all.longest_pause = state_->longest_pause;
  return all;
}

} // namespace gsched::cuda
