// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/time.hpp>
#include <gsched/partition/gpu_shape.hpp>
#include <gsched/partition/interference.hpp>
#include <gsched/partition/latency_table.hpp>
#include <gsched/partition/model_demand.hpp>
#include <gsched/partition/plan.hpp>
#include <gsched/serving/detail/batch_choice.hpp>
#include <gsched/serving/detail/weighted_round_robin.hpp>
#include <gsched/serving/learning/rate_estimate.hpp>
#include <gsched/serving/served_partition.hpp>

#include <algorithm>
#include <cassert>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace gsched {

/// Options of a frontend.
struct frontend_options {
  batch_start start = batch_start::at_once;
  rate_memory memory{};
  duration probe = std::chrono::milliseconds{100}; ///< between two probes of a model, see F8
};

/// The requests of a model by state. arrived = in_time + late + dropped + waiting + running +
/// cancelled.
struct request_counts {
  std::uint64_t arrived = 0;
  std::uint64_t in_time = 0; ///< answered within the SLO
  std::uint64_t late = 0;    ///< answered after the SLO
  std::uint64_t dropped = 0; ///< never answered
  std::uint64_t waiting = 0;
  std::uint64_t running = 0;
  std::uint64_t cancelled = 0; ///< by the caller, while they waited
  bool operator==(const request_counts&) const noexcept = default;
};

/// A batch that has started.
struct started_batch {
  std::size_t model = 0;
  std::span<const waiting_request> requests{}; ///< valid until the batch ends
};

/// Serves requests according to a plan: queues them at partitions in proportion to the plan's
/// rates, forms batches, drops requests that cannot meet their deadline, measures rates, and
/// switches to another plan.
///
///  F1 conservation  each request that arrived is in_time, late, dropped, waiting, running or
///                   cancelled.
///  F2 batches       a batch starts on an idle partition as soon as a request waits; with when_due
///                   in any of these cases: the desired size is reached; a cycle has passed since
///                   the portion's last batch; the oldest request must start now; the portion would
///                   be late after another portion's batch. The portion that must start first goes
///                   first. A batch has one model, the oldest requests, and a size that the table
///                   has.
///  F3 drops         a request is dropped only if no partition of the plan has its model, or if its
///                   batch, as choose_batch forms it, would end after its deadline.
///  F4 shares        of n requests each portion gets its part of the planned rate, within one for
///                   each portion of the model.
///  F5 switch        a running batch ends on its partition. Waiting requests move to the new plan
///                   in order. A partition that both plans have stays. On a GPU that still runs a
///                   batch of the old plan, a new partition starts when enough SMs are free.
///  F6 determinism   answers depend on the calls alone.
///  F7 regions       batches of partitions of one region run at the same time; each partition forms
///                   its batches without regard to the others.
///  F8 probes        where even a batch of 1 that starts at a request's arrival would end after its
///                   deadline, one request in each `probe`, and in ten times its batch's expected
///                   latency, runs alone instead of being dropped: so it is seen when such batches
///                   are faster again.
///
/// Source   Choi et al., USENIX ATC 2022, section 5.
/// Differs  a batch does not wait for its size or its cycle while its partition idles: a small
///          batch that has started delays the next one by at most the planned batch that the cycle
///          has room for, and at lower rates latency is far below the SLO. With when_due, which is
///          the paper's rule, a batch also starts when its oldest request cannot wait longer. A
///          batch grows beyond the desired size if more requests wait and no request gets late by
///          that.
/// Units    requests a second; times on gsched::timeline.
/// Errors   the constructor: bad_option if there is not one SLO for each model. Nothing else
///          throws.
/// Cost     arrive, try_start, due and end O(portions of the model or partition + requests of the
///          batch); no allocation once the queues have reached their longest. switch_to O(waiting
///          requests).
/// Threads  one owner. The caller owes: `now` never falls; table and frontend outlive their use;
///          faults_of finds no fault in a plan, except for rates; `end` is called for each batch.
class frontend {
public:
  /// `slos` are by model of the table, `shapes` by GPU.
  frontend(const latency_table& table, std::vector<duration> slos, std::vector<gpu_shape> shapes,
           frontend_options o = {}, time_point begin = {})
      : table_(&table), slos_(std::move(slos)), shapes_(std::move(shapes)), options_(o),
        models_(table.size(), model_state{{}, rate_estimate(begin, o.memory), {}, {}, begin}),
        corrections_(table.size(), 1.0), draining_(shapes_.size(), 0) {
    if (slos_.size() != table.size())
      throw error(errc::bad_option, "frontend: " + std::to_string(slos_.size()) +
                                        " SLOs, expected one for each of " +
                                        std::to_string(table.size()) + " models");
  }

  /// Switches to a plan. New partitions start at `now + ready_in`. `beside` predicts the slow-down
  /// of batches.
  template <interference_model Interference = no_interference>
  void switch_to(const partition_plan& plan, time_point now, duration ready_in = {},
                 const Interference& beside = {}) {
    std::vector<std::pair<std::size_t, waiting_request>> moving = leave_plan();
    places_.clear();
    for (const std::vector<gpulet>& here : by_gpu(plan))
      for (std::size_t i = 0; i < here.size(); ++i) {
        const std::uint32_t to = place_of(here[i], now + ready_in);
        places_.push_back(to);
        set_portions(partitions_[to], here, i, *table_, slos_, corrections_, now, beside);
        add_routes(to, here[i]);
      }
    for (served_partition& p : partitions_)
      if (!p.planned) {
        p.portions.clear();
        if (!p.is_idle()) ++draining_[p.gpu];
      }
    for (const auto& [model, r] : moving) {
      --models_[model].counts.waiting;
      static_cast<void>(enqueue(model, r));
    }
  }

  /// Expects other slow-downs from now on, of the plan of the last switch_to.
  template <interference_model Interference>
  void expect(const partition_plan& plan, const Interference& beside) {
    assert(plan.gpulets.size() == places_.size());
    auto place = places_.begin();
    for (const std::vector<gpulet>& here : by_gpu(plan))
      for (std::size_t i = 0; i < here.size(); ++i) {
        served_partition& p = partitions_[*place++];
        for (served_portion& s : p.portions) s.slowdown = beside(here, i, s.model);
        set_times(p, *table_, slos_, corrections_);
      }
  }

  /// Expects from now on that batches take so many times longer than table and interference say;
  /// one factor for each model of the table.
  void correct(std::span<const double> corrections) {
    assert(corrections.size() == models_.size());
    corrections_.assign(corrections.begin(), corrections.end());
    for (served_partition& p : partitions_) set_times(p, *table_, slos_, corrections_);
  }
  [[nodiscard]] double correction(std::size_t model) const noexcept { return corrections_[model]; }

  /// Queues a request and returns its partition; empty: the request was dropped. The SLO counts
  /// from `since`, which is earlier than `now` if the request was seen late.
  std::optional<std::uint32_t> arrive(std::size_t model, std::uint64_t id, time_point now,
                                      time_point since) {
    models_[model].rate.arrive(now);
    ++models_[model].counts.arrived;
    return enqueue(model, {id, since + slos_[model]});
  }
  std::optional<std::uint32_t> arrive(std::size_t model, std::uint64_t id, time_point now) {
    return arrive(model, id, now, now);
  }

  /// Takes out a request that waits; false if none of that id does.
  ///
  /// Cost     O(requests of the model that wait).
  bool cancel(std::size_t model, std::uint64_t id) noexcept {
    for (const route& to : models_[model].routes)
      if (partitions_[to.partition].portions[to.portion].waiting.erase(id)) {
        --models_[model].counts.waiting;
        ++models_[model].counts.cancelled;
        return true;
      }
    return false;
  }

  /// Starts a batch on a partition if it is idle and a batch is due. Drops requests that cannot
  /// meet their deadline.
  [[nodiscard]] std::optional<started_batch> try_start(std::uint32_t partition, time_point now) {
    served_partition& p = partitions_[partition];
    if (!can_begin(p) || now < p.ready) return std::nullopt;
    for (;;) {
      const std::size_t which = p.next_portion(options_.start, now);
      if (which == served_partition::none) return std::nullopt;
      served_portion& of = p.portions[which];
      detail::batch_choice c = detail::choose_batch(
          of.waiting.size(), of.desired, of.times, now, p.latest_end(which, now),
          [&](std::size_t i) { return of.waiting[i].deadline; });
      if (c.take == 0 && try_probe(of, now)) c = {c.drop - 1, 1};
      request_counts& counts = models_[of.model].counts;
      for (std::size_t i = 0; i < c.drop; ++i) drop(of.model, of.waiting.pop());
      counts.waiting -= c.drop + c.take;
      if (c.take == 0) continue;
      counts.running += c.take;
      for (std::uint32_t i = 0; i < c.take; ++i) p.running.push_back(of.waiting.pop());
      p.running_model = of.model;
      of.next_cycle = now + p.cycle;
      return started_batch{of.model, p.running};
    }
  }

  /// The next time at which try_start may do something, if no request arrives and no batch of the
  /// GPU ends; no_deadline: never.
  [[nodiscard]] time_point due(std::uint32_t partition, time_point now) const noexcept {
    const served_partition& p = partitions_[partition];
    return can_begin(p) ? p.due(options_.start, now) : no_deadline;
  }

  /// Records the end of the partition's batch. Returns true if SMs became free for other partitions
  /// of the GPU: try_start may then succeed on any of them.
  bool end(std::uint32_t partition, time_point now) noexcept {
    served_partition& p = partitions_[partition];
    assert(!p.is_idle());
    request_counts& counts = models_[p.running_model].counts;
    for (const waiting_request& r : p.running) ++(now <= r.deadline ? counts.in_time : counts.late);
    counts.running -= p.running.size();
    p.running.clear();
    if (p.planned) return draining_[p.gpu] > 0;
    --draining_[p.gpu];
    return true;
  }

  /// Ids of the requests dropped since forget_dropped, in order.
  [[nodiscard]] std::span<const std::uint64_t> dropped() const noexcept { return dropped_; }
  void forget_dropped() noexcept { dropped_.clear(); }

  [[nodiscard]] const request_counts& counts(std::size_t model) const noexcept {
    return models_[model].counts;
  }
  /// The measured rate of a model, requests a second.
  [[nodiscard]] double rate(std::size_t model, time_point now) const noexcept {
    return models_[model].rate.rate(now);
  }
  [[nodiscard]] duration slo(std::size_t model) const noexcept { return slos_[model]; }
  [[nodiscard]] std::size_t models() const noexcept { return models_.size(); }
  /// All partitions. Indices are stable; entries that are not in the plan may be reused.
  [[nodiscard]] std::span<const served_partition> partitions() const noexcept {
    return partitions_;
  }

private:
  struct route {
    std::uint32_t partition;
    std::size_t portion;
  };
  struct model_state {
    request_counts counts;
    rate_estimate rate;
    detail::weighted_round_robin shares;
    std::vector<route> routes; ///< by target of `shares`
    time_point next_probe{};
  };

  /// Whether the last of the requests that would be dropped is a probe now (F8); then the next is
  /// later.
  [[nodiscard]] bool try_probe(const served_portion& of, time_point now) noexcept {
    time_point& next = models_[of.model].next_probe;
    if (of.times.front() <= slos_[of.model] || now < next) return false;
    next = now + std::max(options_.probe, 10 * of.times.front());
    return true;
  }

  /// Whether the partition is idle and no batch of an old plan occupies its SMs.
  [[nodiscard]] bool can_begin(const served_partition& p) const noexcept {
    if (!p.planned || !p.is_idle()) return false;
    if (draining_[p.gpu] == 0) return true;
    std::uint64_t taken = p.sms.count();
    for (std::size_t i = 0; i < partitions_.size(); ++i) {
      const served_partition& q = partitions_[i];
      if (q.gpu != p.gpu || q.is_idle() || share_sms(p, q)) continue;
      const bool is_counted =
          std::any_of(partitions_.begin(), partitions_.begin() + static_cast<std::ptrdiff_t>(i),
                      [&](const auto& o) { return !o.is_idle() && share_sms(o, q); });
      if (!is_counted) taken += q.sms.count();
    }
    return taken <= shapes_[p.gpu].sms.count();
  }
  /// Whether two partitions of the active plan have the same SMs.
  [[nodiscard]] static bool share_sms(const served_partition& a,
                                      const served_partition& b) noexcept {
    return a.planned && b.planned && a.gpu == b.gpu && a.region != 0 && a.region == b.region;
  }

  void drop(std::size_t model, const waiting_request& r) {
    ++models_[model].counts.dropped;
    dropped_.push_back(r.id);
  }

  std::optional<std::uint32_t> enqueue(std::size_t model, const waiting_request& r) {
    model_state& m = models_[model];
    if (m.routes.empty()) {
      drop(model, r);
      return std::nullopt;
    }
    const route to = m.routes[m.shares.next()];
    partitions_[to.partition].portions[to.portion].waiting.push(r);
    ++m.counts.waiting;
    return to.partition;
  }

  /// Takes all waiting requests out of the queues, in order, and removes all routes.
  [[nodiscard]] std::vector<std::pair<std::size_t, waiting_request>> leave_plan() {
    std::vector<std::pair<std::size_t, waiting_request>> moving;
    for (served_partition& p : partitions_) {
      for (served_portion& s : p.portions)
        while (!s.waiting.empty()) moving.emplace_back(s.model, s.waiting.pop());
      p.planned = false;
    }
    std::sort(moving.begin(), moving.end(), [](const auto& a, const auto& b) {
      return std::tuple(a.first, a.second.deadline, a.second.id) <
             std::tuple(b.first, b.second.deadline, b.second.id);
    });
    for (model_state& m : models_) {
      m.shares.clear();
      m.routes.clear();
    }
    std::fill(draining_.begin(), draining_.end(), 0u);
    return moving;
  }

  /// The index for a partition: the equal one of the old plan, or a new or unused one.
  [[nodiscard]] std::uint32_t place_of(const gpulet& g, time_point ready) {
    const auto same = std::find_if(partitions_.begin(), partitions_.end(), [&](const auto& p) {
      return !p.planned && p.gpu == g.gpu && p.sms == g.sms && p.region == g.region &&
             !p.portions.empty();
    });
    const auto none = std::find_if(partitions_.begin(), partitions_.end(), [](const auto& p) {
      return !p.planned && p.is_idle() && p.portions.empty();
    });
    const bool is_kept = same != partitions_.end();
    const auto number = static_cast<std::uint32_t>((is_kept ? same : none) - partitions_.begin());
    if (number == partitions_.size()) partitions_.emplace_back();
    if (!is_kept) partitions_[number].ready = ready;
    return number;
  }

  void add_routes(std::uint32_t number, const gpulet& g) {
    for (std::size_t i = 0; i < g.portions.size(); ++i) {
      if (!(g.portions[i].rate > 0)) continue;
      model_state& m = models_[g.portions[i].model];
      m.shares.add(g.portions[i].rate);
      m.routes.push_back({number, i});
    }
  }

  const latency_table* table_;
  std::vector<duration> slos_;
  std::vector<gpu_shape> shapes_;
  frontend_options options_;
  std::vector<model_state> models_;
  std::vector<double> corrections_; ///< by model
  std::vector<served_partition> partitions_;
  std::vector<std::uint32_t> places_;   ///< of the plan's partitions, by GPU and in order
  std::vector<std::uint32_t> draining_; ///< by GPU: running batches of former plans
  std::vector<std::uint64_t> dropped_;
};

} // namespace gsched
