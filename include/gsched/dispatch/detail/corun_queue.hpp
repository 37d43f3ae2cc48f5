// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/id.hpp>
#include <gsched/core/time.hpp>
#include <gsched/dispatch/active_job.hpp>
#include <gsched/dispatch/detail/corun_gate.hpp>
#include <gsched/dispatch/detail/flight.hpp>
#include <gsched/dispatch/detail/registry.hpp>
#include <gsched/dispatch/detail/start_order.hpp>
#include <gsched/dispatch/options.hpp>
#include <gsched/dispatch/statistics.hpp>
#include <gsched/job/job.hpp>
#include <gsched/policy/policy.hpp>

#include <boost/intrusive/list.hpp>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace gsched {

/// Applies dispatch_options::corun: refuses the next segment of a job that does not fit beside the
/// jobs in flight, and keeps refused jobs by model until one of that model fits.
///
/// A refused job is not in the policy. Once its model fits, one of the model's refused jobs at a
/// time goes back into the policy, the next one when that has been submitted. So a decision does
/// not grow with the number of refused jobs, and each is refused only a few times.
///
/// Order    the refused jobs of a model wait in an order of the dispatcher's policy (start_policy),
///          so the policy always sees the best of them. Among models the policy decides.
/// Bounds   a model that had its first refusal corun_options::most_wait ago, and still does not
///          fit, claims its place (corun_gate). Claims come one at a time, in the order of the
///          first refusals. A claim ends when a job of the model begins: after the segments in
///          flight at its start. So no refused job waits for ever, whatever else arrives, unless
///          real-time jobs, which are never refused, keep it waiting.
/// Cost     O(models in flight) a decision, and O(models with refused jobs x models in flight)
///          after a change; keeping and returning a job cost what the policy costs. prepare
///          allocates. Without a rule one comparison each.
/// Threads  one owner; no locking.
template <policy P>
class corun_queue {
public:
  corun_queue(const P& order, const dispatch_options& how, neighbour_statistics& counts)
      : order_(order), most_wait_(how.corun.most_wait), statistics_(counts), rule_(how.corun.rule),
        gate_(rule_.get()) {}
  corun_queue(const corun_queue&) = delete;
  corun_queue& operator=(const corun_queue&) = delete;

  [[nodiscard]] bool on() const noexcept { return gate_.rule() != nullptr; }

  // Set-up --------------------------------------------------------------------------------------

  /// Called before each job of that model and client. Allocates for the first.
  void prepare(const model& m, const client& c) {
    if (on()) prepare_for_rule(m, c);
  }
  /// No job of the model is active.
  void remove(model_id id) noexcept {
    if (static_cast<std::size_t>(id) >= models_.size()) return;
    std::unique_ptr<kept_jobs>& m = models_[static_cast<std::size_t>(id)];
    if (m != nullptr && m->hook.is_linked()) waiting_.erase(waiting_.iterator_to(*m));
    if (m != nullptr && claim_ == m.get()) end_claim();
    m.reset();
  }

  // A decision ----------------------------------------------------------------------------------

  /// Whether the policy's pick may have its next segment in flight now. A real-time job always may.
  [[nodiscard]] bool admits(const active_job& a, time_point now) noexcept {
    return !on() || a.service == service_class::real_time || fits(a, now);
  }
  /// Keeps a job that admits() has refused.
  [[gnu::noinline]] void keep(active_job& a, time_point now) noexcept {
    kept_jobs& m = of(a);
    ++statistics_.refused;
    if (!std::exchange(a.waits_apart, true)) a.apart_since = now;
    m.order.wait(a, now);
    ++m.jobs;
    ++kept_;
    a.kept_apart = true;
    a.charged = true;
    if (m.hook.is_linked()) return;
    m.since = now;
    waiting_.push_back(m);
  }

  // Changes -------------------------------------------------------------------------------------

  /// A segment of a job was submitted; it is counted in a.flights already.
  void began(active_job& a, const flight& f, time_point now) noexcept {
    if (on() && !f.copies) count_begin(a, now);
  }
  void ended(active_job& a, const flight& f) noexcept {
    if (on()) count_end(a, f);
  }
  /// The facts of a job are about to change, or it ends: it is no longer kept here.
  void withdraw(active_job& a) noexcept {
    if (on()) leave(a);
  }
  /// The job has no more work to submit.
  void stop_wait(active_job& a, time_point now) noexcept {
    if (!std::exchange(a.waits_apart, false)) return;
    statistics_.waited += now - a.apart_since;
    statistics_.longest_wait = std::max(statistics_.longest_wait, now - a.apart_since);
  }

  /// Whether jobs may fit that are kept here.
  [[nodiscard]] bool changed() const noexcept { return changed_ && !waiting_.empty(); }
  /// Calls offer(job) for one job of each model that fits, unless the policy has such a job
  /// already; offer puts it into the policy.
  template <class F>
  [[gnu::noinline]] void return_fitting(time_point now, F offer) noexcept {
    changed_ = false;
    if (claim_ != nullptr && !claim_->waits()) end_claim();
    for (auto at = waiting_.begin(); at != waiting_.end();) {
      kept_jobs& m = *at++;
      if (!m.waits()) {
        waiting_.erase(waiting_.iterator_to(m));
        continue;
      }
      if (m.has_returned() || !gate_.fits(m.row, false)) continue;
      active_job& a = static_cast<active_job&>(m.order.take(now));
      --m.jobs;
      --kept_;
      a.kept_apart = false;
      offer(a);
      a.returned = true;
      m.next = &a;
    }
  }
  /// Whether any job is kept here.
  [[nodiscard]] bool any() const noexcept { return kept_ > 0; }

private:
  using hook_type = bi::list_member_hook<bi::link_mode<bi::safe_link>>;
  /// The refused jobs of a model.
  struct kept_jobs {
    kept_jobs(const P& like, const model& m, corun_gate::row r) : of(m), order(like), row(r) {}

    /// Whether the job that went back into the policy last is still there.
    [[nodiscard]] bool has_returned() const noexcept {
      return next != nullptr && next->returned && next->in_policy && next->kind == &of;
    }
    [[nodiscard]] bool waits() const noexcept { return jobs > 0 || has_returned(); }

    const model& of;
    start_order<P> order;
    corun_gate::row row;
    std::size_t jobs = 0;       ///< in `order`
    active_job* next = nullptr; ///< returned last; its record may be of another job by now
    time_point since{};         ///< the first refusal since a job of the model began
    hook_type hook{};           ///< linked while it waits for its turn
  };
  using waiting_models =
      bi::list<kept_jobs, bi::member_hook<kept_jobs, hook_type, &kept_jobs::hook>,
               bi::constant_time_size<false>>;

  [[nodiscard]] kept_jobs& of(const active_job& a) noexcept { return *models_[a.kind->number]; }

  // Out of line, so that the dispatcher's loop stays short without a rule.

  [[gnu::noinline]] void prepare_for_rule(const model& m, const client& c) {
    if (m.number >= models_.size()) models_.resize(m.number + std::size_t{1});
    if (models_[m.number] == nullptr)
      models_[m.number] = std::make_unique<kept_jobs>(order_, m, gate_.rule()->row_of(m.name));
    models_[m.number]->order.prepare(c);
  }
  [[gnu::noinline]] bool fits(const active_job& a, time_point now) noexcept {
    if (claim_ != nullptr && !claim_->waits()) end_claim();
    if (claim_ == nullptr) begin_claim(now);
    return gate_.fits(of(a).row, a.corun_flights > 0);
  }
  [[gnu::noinline]] void count_begin(active_job& a, time_point now) noexcept {
    stop_wait(a, now);
    a.charged = false;
    if (a.corun_flights++ > 0) return;
    kept_jobs& m = of(a);
    if (a.service == service_class::real_time && !gate_.fits(m.row, false))
      ++statistics_.overridden;
    statistics_.unknown += gate_.unknown_beside(m.row);
    gate_.began(m.row);
    changed_ = true;
    if (!m.hook.is_linked()) return;
    waiting_.erase(waiting_.iterator_to(m));
    if (claim_ == &m) end_claim();
    if (m.jobs == 0) return;
    m.since = now;
    waiting_.push_back(m);
  }
  [[gnu::noinline]] void count_end(active_job& a, const flight& f) noexcept {
    changed_ = true; // a job that was returned to the policy may have left it
    if (!f.copies && --a.corun_flights == 0) gate_.ended(of(a).row);
  }
  [[gnu::noinline]] void leave(active_job& a) noexcept {
    changed_ = true;
    if (!std::exchange(a.kept_apart, false)) return;
    of(a).order.leave(a);
    --of(a).jobs;
    --kept_;
  }

  void begin_claim(time_point now) noexcept {
    for (kept_jobs& m : waiting_) {
      if (now - m.since < most_wait_) return;
      // one that fits waits for the policy alone, and must not hold up the claims of others
      if (!m.waits() || gate_.fits(m.row, false)) continue;
      claim_ = &m;
      gate_.claim(m.row);
      ++statistics_.claims;
      return;
    }
  }
  void end_claim() noexcept {
    claim_ = nullptr;
    gate_.drop_claim();
    changed_ = true;
  }

  const P& order_;
  duration most_wait_;
  neighbour_statistics& statistics_;
  std::shared_ptr<const corun_rule> rule_; ///< kept for gate_
  corun_gate gate_;
  std::vector<std::unique_ptr<kept_jobs>> models_; ///< by id; null before the first job
  waiting_models waiting_;                         ///< by `since`
  kept_jobs* claim_ = nullptr;
  std::size_t kept_ = 0;
  bool changed_ = false;
};

} // namespace gsched
