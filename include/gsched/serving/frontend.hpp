// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/time.hpp>
#include <gsched/partition/demand.hpp>
#include <gsched/partition/gpu_shape.hpp>
#include <gsched/partition/interference.hpp>
#include <gsched/partition/latency_table.hpp>
#include <gsched/partition/plan.hpp>
#include <gsched/serving/detail/batch_choice.hpp>
#include <gsched/serving/detail/planned_shares.hpp>
#include <gsched/serving/rate_estimate.hpp>
#include <gsched/serving/served_partition.hpp>

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace gsched {

struct frontend_options {
  batch_start start = batch_start::when_due;
  rate_memory memory{};
};

/// What became of a model's requests. arrived = in_time + late + dropped + waiting + running.
struct request_counts {
  std::uint64_t arrived = 0;
  std::uint64_t in_time = 0; ///< answered within the SLO
  std::uint64_t late = 0;    ///< answered after it
  std::uint64_t dropped = 0; ///< not answered
  std::uint64_t waiting = 0;
  std::uint64_t running = 0;
  bool operator==(const request_counts&) const noexcept = default;
};

/// A batch that has begun.
struct begun_batch {
  std::size_t model = 0;
  std::span<const waiting_request> requests{}; ///< until it ends
};

/// Serves requests as a plan says: keeps them for the partitions whose share they are, makes
/// batches, drops who cannot be in time, measures rates, and goes over to another plan.
///
///  F1 conservation  each request that arrived is in_time, late, dropped, waiting or running.
///  F2 batches       a batch begins on an idle partition when the desired size is there, when a
///  cycle
///                   has passed since the portion's last one, when its oldest must begin now, or
///                   when it would be late after another's batch; it is of one model, of those that
///                   came first, and of a size that the table has.
///  F3 drops         a request is dropped only when no partition of the plan has its model, or when
///                   its batch, as choose_batch makes it, would end after its deadline.
///  F4 shares        of n requests a portion gets its part of the planned rate, give or take one
///                   for each portion of the model.
///  F5 switch        a batch that runs ends where it runs; who waits moves to the new plan, in
///                   order. A partition that both plans have goes on. On a GPU on which a batch of
///                   the old plan still runs, a new partition begins when there are SMs for it.
///  F6 determinism   answers depend on the calls alone.
///
/// Source   Choi et al., USENIX ATC 2022, section 5.
/// Differs  a batch also begins when its oldest request could not wait longer, and grows beyond the
///          desired size where more wait and nobody is late for it.
/// Units    requests a second; times on gsched::timeline.
/// Errors   the constructor: bad_option for SLOs that are not one a model. Nothing else throws.
/// Cost     arrive, try_start, due and end O(portions of the model or of the partition) and the
///          requests of the batch, without allocation once queues are as long as they get; a switch
///          O(all that waits).
/// Threads  one owner. The caller owes: `now` never falls, table and this outlive their use, a plan
///          has no fault that faults_of would find but rates, and `end` is told of each batch.
class frontend {
public:
  /// `slos` by model of the table, `shapes` by GPU.
  frontend(const latency_table& table, std::vector<duration> slos, std::vector<gpu_shape> shapes,
           frontend_options o = {}, time_point begin = {})
      : table_(&table), slos_(std::move(slos)), shapes_(std::move(shapes)), options_(o),
        models_(table.size(), model_state{{}, rate_estimate(begin, o.memory), {}, {}}),
        draining_(shapes_.size(), 0) {
    if (slos_.size() != table.size())
      throw error(errc::bad_option, "frontend: " + std::to_string(slos_.size()) +
                                        " SLOs, expected one for each of " +
                                        std::to_string(table.size()) + " models");
  }

  /// Goes over to a plan. Partitions that the plan before had not serve from `ready_in` on; batches
  /// are expected to take as long as `beside` says.
  template <interference_model Interference = no_interference>
  void switch_to(const partition_plan& plan, time_point now, duration ready_in = {},
                 const Interference& beside = {}) {
    std::vector<std::pair<std::size_t, waiting_request>> moving = leave_plan();
    std::vector<std::vector<gpulet>> on(shapes_.size());
    for (const gpulet& g : plan.gpulets) on[g.gpu].push_back(g);
    for (const std::vector<gpulet>& here : on)
      for (std::size_t i = 0; i < here.size(); ++i) {
        const std::uint32_t to = place_of(here[i], now + ready_in);
        take_up(partitions_[to], here, i, *table_, slos_, now, beside);
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

  /// The partition that the request waits for; none: it is dropped. Its SLO counts from `since`,
  /// where it has come before it was seen.
  std::optional<std::uint32_t> arrive(std::size_t model, std::uint64_t id, time_point now,
                                      time_point since) {
    models_[model].rate.arrive(now);
    ++models_[model].counts.arrived;
    return enqueue(model, {id, since + slos_[model]});
  }
  std::optional<std::uint32_t> arrive(std::size_t model, std::uint64_t id, time_point now) {
    return arrive(model, id, now, now);
  }

  /// Begins a batch on a partition, if it is idle and one is due; drops who cannot be in time.
  [[nodiscard]] std::optional<begun_batch> try_start(std::uint32_t partition, time_point now) {
    served_partition& p = partitions_[partition];
    if (!can_begin(p) || now < p.ready) return std::nullopt;
    for (;;) {
      const std::size_t whose = p.whose_turn(options_.start, now);
      if (whose == served_partition::nobody) return std::nullopt;
      served_portion& of = p.portions[whose];
      const batch_choice c =
          choose_batch(of.waiting.size(), of.desired, of.times, now, p.free_by(whose, now),
                       [&](std::size_t i) { return of.waiting[i].deadline; });
      request_counts& counts = models_[of.model].counts;
      for (std::size_t i = 0; i < c.drop; ++i) drop(of.model, of.waiting.pop());
      counts.waiting -= c.drop + c.take;
      if (c.take == 0) continue;
      counts.running += c.take;
      for (std::uint32_t i = 0; i < c.take; ++i) p.running.push_back(of.waiting.pop());
      p.running_model = of.model;
      of.turn = now + p.cycle;
      return begun_batch{of.model, p.running};
    }
  }

  /// When try_start has something to do, if nobody comes and no batch of its GPU ends; no_deadline:
  /// never.
  [[nodiscard]] time_point due(std::uint32_t partition, time_point now) const noexcept {
    const served_partition& p = partitions_[partition];
    return can_begin(p) ? p.due(options_.start, now) : no_deadline;
  }

  /// The partition's batch has ended. True: all of its GPU may be asked again, for SMs are free.
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

  /// Who was dropped since forget_dropped, in order.
  [[nodiscard]] std::span<const std::uint64_t> dropped() const noexcept { return dropped_; }
  void forget_dropped() noexcept { dropped_.clear(); }

  [[nodiscard]] const request_counts& counts(std::size_t model) const noexcept {
    return models_[model].counts;
  }
  /// As measured.
  [[nodiscard]] double rate(std::size_t model, time_point now) const noexcept {
    return models_[model].rate.rate(now);
  }
  [[nodiscard]] duration slo(std::size_t model) const noexcept { return slos_[model]; }
  [[nodiscard]] std::size_t models() const noexcept { return models_.size(); }
  /// Their numbers stay as long as they are; some may be none.
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
    planned_shares shares;
    std::vector<route> routes; ///< by taker
  };

  /// Idle, and no batch of an old plan has the SMs.
  [[nodiscard]] bool can_begin(const served_partition& p) const noexcept {
    if (!p.planned || !p.is_idle()) return false;
    if (draining_[p.gpu] == 0) return true;
    std::uint64_t taken = p.sms.count();
    for (const served_partition& q : partitions_)
      if (q.gpu == p.gpu && !q.is_idle()) taken += q.sms.count();
    return taken <= shapes_[p.gpu].sms.count();
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

  /// Takes out all that wait, in order, and forgets who serves what.
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

  /// The partition of the old plan that is the same, or a new one.
  [[nodiscard]] std::uint32_t place_of(const gpulet& g, time_point ready) {
    const auto same = std::find_if(partitions_.begin(), partitions_.end(), [&](const auto& p) {
      return !p.planned && p.gpu == g.gpu && p.sms == g.sms && !p.portions.empty();
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
  std::vector<served_partition> partitions_;
  std::vector<std::uint32_t> draining_; ///< by GPU: batches of plans that are no more
  std::vector<std::uint64_t> dropped_;
};

} // namespace gsched
