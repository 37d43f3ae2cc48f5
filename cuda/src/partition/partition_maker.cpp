// SPDX-License-Identifier: Apache-2.0
#include "partition/partition_maker.hpp"

#include <gsched/core/error.hpp>
#include <gsched/cuda/partition/partitions.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

namespace gsched::cuda {

namespace {

using clock = std::chrono::steady_clock;

duration since(clock::time_point then) {
  return std::chrono::duration_cast<duration>(clock::now() - then);
}

} // namespace

partition_maker::partition_maker(const partition_batches_options& o, const program_source& source)
    : options_(o), source_(source), staging_(o.gpus) {
  for (const int g : options_.gpus) // with overlap, a process may have a part of the SMs, by MPS
    sizes_.push_back(options_.overlap ? std::vector<std::uint32_t>{} : cuda::group_sizes(g));
  thread_ = std::thread([this] { work(); });
}

partition_maker::~partition_maker() {
  {
    const std::lock_guard lock(guard_);
    ends_ = true;
  }
  wakes_.notify_one();
  thread_.join();
}

void partition_maker::prepare(plan_chooser decide) {
  {
    const std::lock_guard lock(guard_);
    asked_ = std::move(decide);
  }
  wakes_.notify_one();
}

bool partition_maker::try_prepared() {
  if (!is_done()) return false;
  is_done_ = 0;
  told_ = counted_;
  if (wrong_) std::rethrow_exception(std::exchange(wrong_, nullptr));
  return true;
}

void partition_maker::work() {
  for (;;) {
    plan_chooser decide;
    {
      std::unique_lock lock(guard_);
      wakes_.wait(lock, [&] { return ends_ || asked_; });
      if (ends_) return;
      decide = std::exchange(asked_, nullptr);
    }
    try {
      const auto begun = clock::now();
      const partition_plan* const plan = decide();
      counted_.deciding += since(begun);
      if (plan != nullptr) make(*plan);
    } catch (...) {
      wrong_ = std::current_exception();
    }
    sync::atomic_ref<std::uint32_t>(is_done_).store(1, sync::release); // [D1] -> is_done: the plan
  }
}

bool partition_maker::is_in(const std::vector<ready_partition>& all, const instance_pointer& s) {
  return std::any_of(all.begin(), all.end(), [&](const auto& p) { return p.instance == s; });
}

std::vector<partition_maker::place> partition_maker::places_of(const partition_plan& plan) const {
  std::vector<place> all;
  all.reserve(plan.gpulets.size());
  for (const gpulet& g : plan.gpulets) {
    if (g.gpu >= options_.gpus.size())
      throw error(errc::bad_option, "plan for GPU " + std::to_string(g.gpu) +
                                        ", expected at most " +
                                        std::to_string(options_.gpus.size() - 1));
    place& p = all.emplace_back();
    p.gpu = g.gpu;
    p.region = g.region;
    p.what.sms = g.sms;
    for (const portion& s : g.portions) {
      if (s.model >= options_.batches.size())
        throw error(errc::bad_option, "plan for model " + std::to_string(s.model) +
                                          ", expected one that has batches");
      p.what.models.push_back(s.model);
    }
    std::sort(p.what.models.begin(), p.what.models.end());
  }
  return all;
}

void partition_maker::make(const partition_plan& plan) {
  const auto begun = clock::now();
  const std::vector<place> wanted = places_of(plan);
  std::vector<ready_partition> made;
  for (std::uint32_t gpu = 0; gpu < options_.gpus.size(); ++gpu) make_on(gpu, wanted, made);
  std::uint64_t data_bytes = 0;
  for (const ready_partition& p : made) data_bytes = std::max(data_bytes, p.instance->data_bytes());
  staging_.reserve(made.size(), data_bytes);
  // Partitions that the plan does not use become spare, the newest first.
  std::vector<instance_pointer> left;
  for (const instance_pointer& s : all_instances())
    if (!is_in(made, s)) left.push_back(s);
  ready_ = std::move(made);
  spare_ = std::move(left);
  while (spare_.size() > options_.spare && let_go()) {
  }
  const duration took = since(begun);
  counted_.making += took;
  counted_.longest_making = std::max(counted_.longest_making, took);
}

int partition_maker::priority_of(const partition_placement& where) const noexcept {
  int most = 0;
  for (const std::size_t m : where.models)
    if (m < options_.priorities.size()) most = std::max(most, options_.priorities[m]);
  return most;
}

std::vector<instance_pointer> partition_maker::all_instances() const {
  std::vector<instance_pointer> all;
  for (const ready_partition& p : ready_) all.push_back(p.instance);
  all.insert(all.end(), spare_.begin(), spare_.end());
  return all;
}

void partition_maker::make_on(std::uint32_t gpu, const std::vector<place>& wanted,
                              std::vector<ready_partition>& made) {
  if (options_.overlap) return make_streams_on(gpu, wanted, made);
  std::vector<place> here;                // in order
  std::vector<partition_placement> sizes; // to assign: a region once
  std::vector<std::size_t> size_of;       // by partition
  for (const place& p : wanted) {
    if (p.gpu != gpu) continue;
    const auto same = std::find_if(here.begin(), here.end(), [&](const place& other) {
      return p.region != 0 && other.region == p.region;
    });
    size_of.push_back(same == here.end() ? sizes.size()
                                         : size_of[static_cast<std::size_t>(same - here.begin())]);
    if (same == here.end()) sizes.push_back(p.what);
    here.push_back(p);
  }
  std::vector<instance_pointer> instances; // on this GPU
  std::vector<partition_placement> there;
  for (const instance_pointer& s : all_instances())
    if (s->gpu() == gpu) {
      instances.push_back(s);
      there.push_back(s->where());
    }
  const std::vector<group_assignment> assigned = assign_groups(sizes_[gpu], sizes, there);
  std::vector<std::size_t> missing; // keep the reused ones first, so that none of them is destroyed
  for (std::size_t i = 0; i < here.size(); ++i) {
    const group_assignment& a = assigned[size_of[i]];
    here[i].what.groups = a.groups;
    const auto kept = std::find_if(instances.begin(), instances.end(), [&](const auto& s) {
      const std::vector<std::size_t>&has = s->where().models, &wants = here[i].what.models;
      return s->where().groups == a.groups && !is_in(made, s) &&
             std::includes(has.begin(), has.end(), wants.begin(), wants.end());
    });
    if (kept == instances.end()) {
      missing.push_back(i);
      continue;
    }
    made.push_back({*kept, here[i].region});
    ++counted_.kept;
  }
  instances.clear(); // of which spare ones may be destroyed
  for (const std::size_t i : missing) {
    made.push_back({make_instance(gpu, here[i].what), here[i].region});
    ++counted_.made;
  }
}

void partition_maker::make_streams_on(std::uint32_t gpu, const std::vector<place>& wanted,
                                      std::vector<ready_partition>& made) {
  for (const place& p : wanted) {
    if (p.gpu != gpu) continue;
    const auto same = std::find_if(ready_.begin(), ready_.end(), [&](const ready_partition& r) {
      const partition_instance& s = *r.instance;
      return s.gpu() == gpu && s.where().sms == p.what.sms && s.where().models == p.what.models;
    });
    made.push_back({same != ready_.end() ? same->instance : make_instance(gpu, p.what), p.region});
    ++(same != ready_.end() ? counted_.kept : counted_.made);
  }
}

instance_pointer partition_maker::make_instance(std::uint32_t gpu,
                                                const partition_placement& where) {
  for (;;) try {
      return std::make_shared<partition_instance>(gpu, options_.gpus[gpu], where, options_.batches,
                                                  source_, options_.watchdog, staging_,
                                                  priority_of(where), options_.traces);
    } catch (const error&) {
      if (!let_go()) throw; // memory or programs may be short: retry with one spare fewer
    }
}

bool partition_maker::let_go() {
  for (std::size_t i = spare_.size(); i-- > 0;) {
    if (spare_[i].use_count() > 1) continue; // a plan uses it, or a batch runs there
    spare_.erase(spare_.begin() + static_cast<std::ptrdiff_t>(i));
    ++counted_.let_go;
    return true;
  }
  return false;
}

} // namespace gsched::cuda
