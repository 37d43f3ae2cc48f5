// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/id.hpp>
#include <gsched/core/number_text.hpp>
#include <gsched/core/time.hpp>
#include <gsched/device/device.hpp>
#include <gsched/dispatch/detail/instances.hpp>
#include <gsched/dispatch/request.hpp>
#include <gsched/job/context.hpp>
#include <gsched/job/estimate.hpp>
#include <gsched/job/job.hpp>
#include <gsched/job/program.hpp>
#include <gsched/occupancy/footprint.hpp>
#include <gsched/occupancy/program_footprint.hpp>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace gsched {

/// A model: a kind of job, and the learned counts and times of its kernels.
struct model {
  model(std::string named, job_body does, std::uint32_t instance_count)
      : name(std::move(named)), body(does), instances(instance_count) {}
  model(const model&) = delete;
  model& operator=(const model&) = delete;

  std::string name;
  std::uint32_t number = 0; ///< its id
  job_body body;
  instance_pool instances;
  estimator estimate;
  /// While a job of this model is started, no job of these models starts. May contain the model
  /// itself.
  std::vector<model*> excluded{};
  std::size_t jobs = 0;    ///< active jobs
  std::size_t started = 0; ///< of these, jobs with an instance
  bool noted = false;      ///< in the list of models whose waiting jobs may start
  model* next_noted = nullptr;

  /// Whether j, a job of this model that has not started, or the waiting job that is next, may
  /// start now: an instance is free, no job of an excluded model is started, and no job that waits
  /// for one of these models precedes it. The first of all waiting jobs is delayed only by started
  /// jobs, so no job starves and exclusions cannot deadlock. O(excluded models).
  [[nodiscard]] bool may_start_next() noexcept {
    const waiting_job* const first = instances.first_in_common();
    return first != nullptr ? may_start(*first) : instances.has_free();
  }
  [[nodiscard]] bool may_start(const job& j) const noexcept {
    if (!instances.has_free() || instances.waits_before(j)) return false;
    return std::none_of(excluded.begin(), excluded.end(), [&](const model* m) {
      return m->started > 0 || m->instances.waits_before(j);
    });
  }
};

/// The dispatcher's models, loaded programs and clients.
///
/// Errors   set-up throws gsched::error in one line and changes nothing.
/// Cost     only set-up allocates. freed O(excluded models).
/// Threads  one owner; no locking.
class registry {
public:
  explicit registry(const device_limits& limits) : limits_(limits) {}
  registry(const registry&) = delete;
  registry& operator=(const registry&) = delete;

  // Programs ----------------------------------------------------------------------------------

  /// The demand of each kernel of the program.
  ///
  /// Errors   does_not_fit: a kernel fits on no SM.
  [[nodiscard]] program_footprint footprint_of(const program& p) const {
    return {limits_.sm, limits_.sms, p};
  }
  /// Called after the device has set the program's id.
  void add_program(const program& p, program_footprint asks) {
    if (index(p.id()) >= programs_.size()) programs_.resize(index(p.id()) + std::size_t{1});
    programs_[index(p.id())] = std::move(asks);
  }
  /// No active job may launch the program, and no model may expect it.
  void remove_program(program_id id) noexcept {
    assert(index(id) < programs_.size());
    programs_[index(id)].reset();
  }
  /// Whether a program with that id was added and not removed.
  [[nodiscard]] bool has_program(program_id id) const noexcept {
    return index(id) < programs_.size() && programs_[index(id)].has_value();
  }

  /// The footprint of a segment.
  [[nodiscard]] footprint asks(const segment& s) const noexcept {
    if (s.program != no_program)
      return programs_[index(s.program)]->range(s.first, s.first + s.operations.size());
    footprint all;
    double busy = 0;
    for (const operation* op : s.operations) {
      const footprint one = gsched::footprint_of(limits_.sm, limits_.sms, *op);
      all.time += one.time;
      busy += one.fill * static_cast<double>(one.time.count());
      all.blocks += one.blocks;
      all.words += one.words;
      if (one.peak > all.peak || all.widest.blocks == 0) all.widest = one.widest;
      all.peak = std::max(all.peak, one.peak);
    }
    all.fill =
        all.time > duration::zero() ? busy / static_cast<double>(all.time.count()) : all.peak;
    return all;
  }

  /// The demand of one kernel of a segment.
  [[nodiscard]] kernel_demand demand(program_id program, std::uint32_t first,
                                     std::span<const operation* const> operations,
                                     std::uint32_t at) const noexcept {
    if (at >= operations.size()) return {};
    if (program != no_program) return programs_[index(program)]->kernel(first + at);
    return gsched::footprint_of(limits_.sm, limits_.sms, *operations[at]).widest;
  }

  // Models ------------------------------------------------------------------------------------

  [[nodiscard]] model_id add_model(std::string name, job_body body,
                                   std::span<const program* const> expected,
                                   std::uint32_t instances) {
    for (const program* p : expected)
      if (p == nullptr || !has_program(p->id())) fail_not_loaded("model " + name, p);
    std::optional<model>& m = models_.emplace_back();
    try {
      m.emplace(std::move(name), body, instances);
      m->number = static_cast<std::uint32_t>(models_.size() - 1);
      for (const program* p : expected) m->estimate.add(*p);
    } catch (...) {
      models_.pop_back();
      throw;
    }
    return model_id{m->number};
  }

  void add_replica(model_id id, const program& replica, const program& of) {
    if (replica.size() != of.size())
      throw error(errc::bad_option, replica.name() + ": " + std::to_string(replica.size()) +
                                        " operations, expected " + std::to_string(of.size()) +
                                        " as the program that it replaces has");
    check(id, "add_replica");
    for (const program* p : {&replica, &of})
      if (!has_program(p->id())) fail_not_loaded("add_replica", p);
    (*this)[id].estimate.add_replica(replica, of);
  }

  void exclude(model_id a, model_id b, time_point now) {
    for (const model_id m : {a, b}) check(m, "exclude");
    (*this)[a].instances.keep_common_order(now);
    (*this)[b].instances.keep_common_order(now);
    const auto add = [](model& to, model& other) {
      if (std::find(to.excluded.begin(), to.excluded.end(), &other) == to.excluded.end())
        to.excluded.push_back(&other);
    };
    add((*this)[a], (*this)[b]);
    add((*this)[b], (*this)[a]);
  }

  void remove_model(model_id id) {
    if (!has(id))
      throw error(errc::bad_option,
                  "model " + std::to_string(static_cast<std::uint32_t>(id)) + ": unknown");
    model& gone = (*this)[id];
    if (gone.jobs > 0)
      throw error(errc::bad_option, gone.name + ": " + std::to_string(gone.jobs) +
                                        " active jobs, expected none of a model to remove");
    assert(!gone.instances.has_waiting());
    for (model* m : gone.excluded)
      if (m != &gone) std::erase(m->excluded, &gone);
    for (model** at = &first_noted_; *at != nullptr; at = &(*at)->next_noted)
      if (*at == &gone) {
        *at = gone.next_noted;
        break;
      }
    models_[static_cast<std::size_t>(id)].reset();
  }

  /// Whether a model with that id was added and not removed.
  [[nodiscard]] bool has(model_id id) const noexcept {
    return static_cast<std::size_t>(id) < models_.size() &&
           models_[static_cast<std::size_t>(id)].has_value();
  }
  [[nodiscard]] model& operator[](model_id id) noexcept {
    assert(has(id));
    return *models_[static_cast<std::size_t>(id)];
  }
  [[nodiscard]] const model& operator[](model_id id) const noexcept {
    assert(has(id));
    return *models_[static_cast<std::size_t>(id)];
  }

  /// A job of the model has returned its instance, or no longer waits: others may start.
  void freed(model& m) noexcept {
    note(m);
    for (model* other : m.excluded) note(*other);
  }
  [[nodiscard]] bool any_freed() const noexcept { return first_noted_ != nullptr; }

  /// Calls start(job) for each job that waited for an instance and may start now; start takes the
  /// instance. Returns whether there was any.
  template <class F>
  bool start_waiting(time_point now, F start) {
    bool any = false;
    while (first_noted_ != nullptr) {
      model& m = *first_noted_;
      first_noted_ = m.next_noted;
      m.noted = false;
      for (; m.instances.has_waiting() && m.may_start_next(); any = true)
        start(m.instances.take_waiting(now));
    }
    return any;
  }

  // Clients and requests ----------------------------------------------------------------------

  [[nodiscard]] client& add_client(double weight) {
    if (!(weight > 0) || !std::isfinite(weight))
      throw error(errc::bad_option,
                  "client weight: " + number_text(weight) + ", expected a finite number above 0");
    client& c = clients_.emplace_back();
    c.id = client_id{static_cast<std::uint32_t>(clients_.size() - 1)};
    c.weight = weight;
    return c;
  }

  /// Refuses a request whose owner or model is not registered here. O(1).
  void check(const job_request& r) const {
    const std::size_t owner = r.owner == nullptr ? clients_.size() : index(r.owner->id);
    if (owner >= clients_.size() || &clients_[owner] != r.owner)
      throw error(errc::bad_option, std::string("job_request::owner: ") +
                                        (r.owner == nullptr ? "none" : "of another dispatcher") +
                                        ", expected a client that add_client() returned");
    check(r.model, "job_request::model");
  }

private:
  void check(model_id m, const char* where) const {
    if (!has(m))
      throw error(errc::unknown_name, std::string(where) + ": " +
                                          std::to_string(static_cast<std::uint32_t>(m)) +
                                          " is no model, expected one that add_model() returned");
  }
  [[noreturn]] static void fail_not_loaded(const std::string& what, const program* p) {
    throw error(errc::bad_option, what + ": program " + (p == nullptr ? "null" : p->name()) +
                                      " is not loaded, expected one that load() was given");
  }
  void note(model& m) noexcept {
    if (!m.instances.has_waiting() || std::exchange(m.noted, true)) return;
    m.next_noted = first_noted_;
    first_noted_ = &m;
  }

  device_limits limits_;
  std::deque<std::optional<model>> models_; ///< by id; empty after a removal
  model* first_noted_ = nullptr;            ///< the models whose waiting jobs may start
  std::vector<std::optional<program_footprint>> programs_; ///< by program id
  std::deque<client> clients_;
};

} // namespace gsched
