// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/number_text.hpp>
#include <gsched/device/device.hpp>
#include <gsched/dispatch/model.hpp>
#include <gsched/dispatch/request.hpp>
#include <gsched/job/context.hpp>
#include <gsched/job/job.hpp>
#include <gsched/job/program.hpp>
#include <gsched/occupancy/program_footprint.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

namespace gsched {

/// What a dispatcher knows beside its jobs: programs, kinds of job, clients.
///
/// Errors   throws gsched::error: this is set-up.
/// Threads  one owner; no locking.
template <device Device>
class registry {
public:
  explicit registry(Device& on) : device_(on), models_(on.limits()) {}

  /// Loads a captured graph on the device; it stays in place until it is unloaded or the registry's
  /// end.
  /// Throws does_not_fit if one of its kernels fits on no SM. `built`: what the device's build(p)
  /// made, or nothing.
  template <class... Built>
    requires(sizeof...(Built) <= 1)
  void load(program& p, Built... built) {
    const program_footprint asks(device_.limits().sm, device_.limits().sms, p); // may refuse
    device_.load(p, std::move(built)...);
    models_.add_program(p, asks);
  }

  /// A kind of job: its body, which stays in place until it is removed or the registry's end, and
  /// the programs to expect of it, which were loaded before. With a limited number of instances, as
  /// many of its jobs are between start and end at once, each with a number of its own
  /// (job_context::instance); the others wait before their body starts in the policy's
  /// order (instances.hpp).
  [[nodiscard]] model_id add_model(std::string name, job_body body,
                                   std::span<const program* const> expected,
                                   std::uint32_t instances = instance_pool::unlimited) {
    for (const program* p : expected)
      if (p == nullptr || !models_.has_program(p->id()))
        throw error(errc::bad_option, "model " + name + ": program " +
                                          (p == nullptr ? "null" : p->name()) +
                                          " is not loaded, expected one that load() was given");
    return models_.add(std::move(name), body, expected, instances);
  }
  [[nodiscard]] model_id add_model(std::string name, job_body body,
                                   const program* expected = nullptr,
                                   std::uint32_t instances = instance_pool::unlimited) {
    return add_model(std::move(name), body, {&expected, expected != nullptr ? 1u : 0u}, instances);
  }

  /// A program, loaded before, that the model's jobs run in place of one that it expects, with the
  /// same operations: another of its instances.
  void add_twin(model_id m, const program& twin, const program& of) {
    if (twin.size() != of.size())
      throw error(errc::bad_option, twin.name() + ": " + std::to_string(twin.size()) +
                                        " operations, expected " + std::to_string(of.size()) +
                                        " as its twin has");
    check(m, "add_twin");
    for (const program* p : {&twin, &of})
      if (!models_.has_program(p->id()))
        throw error(errc::bad_option, "add_twin: program " + p->name() +
                                          " is not loaded, expected one that load() was given");
    models_[m].estimate.add_twin(twin, of);
  }

  /// In place while the registry lives.
  /// Errors   bad_option for a weight that is not a finite number above 0.
  [[nodiscard]] client& add_client(double weight = 1.0) {
    if (!(weight > 0) || !std::isfinite(weight))
      throw error(errc::bad_option,
                  "client weight: " + number_text(weight) + ", expected a finite number above 0");
    client& c = clients_.emplace_back();
    c.id = client_id{static_cast<std::uint32_t>(clients_.size() - 1)};
    c.weight = weight;
    return c;
  }

  /// From now on no job of `a` starts while one of `b` is between its start and its end, and no job
  /// of `b` while one of `a` is; with a == b the model's jobs run one after another, however many
  /// instances it has. A job that cannot start waits as for an instance; of the jobs that wait for
  /// models that exclude one another none overtakes another in the order by class, deadline and
  /// arrival, whatever the policy.
  /// Errors   unknown_name for a model that was not added, or was removed.
  void exclude(model_id a, model_id b) {
    for (const model_id m : {a, b}) check(m, "exclude");
    models_.exclude(a, b, device_.now());
  }

  /// Frees what is kept of a kind of job. No active job is of it; its id is not used again.
  /// Errors   bad_option for an unknown one, or one that has active jobs.
  void remove(model_id id) {
    if (!models_.has(id))
      throw error(errc::bad_option,
                  "model " + std::to_string(static_cast<std::uint32_t>(id)) + ": unknown");
    const model& m = models_[id];
    if (m.jobs > 0)
      throw error(errc::bad_option, m.name + ": " + std::to_string(m.jobs) +
                                        " active jobs, expected none of a model to remove");
    models_.remove(id);
  }

  /// Undoes load. No active job launches the program, no model that is left expects it, and no
  /// padded program was added for it. Returns what the device's `unload` returns; a device without
  /// it keeps what it has built of the program.
  auto unload(program& p) {
    const program_id id = p.id();
    if constexpr (!requires { device_.unload(p); }) {
      models_.remove_program(id);
    } else if constexpr (std::is_void_v<decltype(device_.unload(p))>) {
      device_.unload(p); // may refuse
      models_.remove_program(id);
    } else {
      auto built = device_.unload(p); // may refuse
      models_.remove_program(id);
      return built;
    }
  }

  [[nodiscard]] const model& model_of(model_id id) const noexcept { return models_[id]; }

protected:
  /// Refuses a request whose owner or model the registry does not have. O(1).
  void check(const job_request& r) const {
    const std::size_t owner = r.owner == nullptr ? clients_.size() : index(r.owner->id);
    if (owner >= clients_.size() || &clients_[owner] != r.owner)
      throw error(errc::bad_option, std::string("job_request::owner: ") +
                                        (r.owner == nullptr ? "none" : "of another dispatcher") +
                                        ", expected a client that add_client() returned");
    check(r.model, "job_request::model");
  }
  void check(model_id m, const char* where) const {
    if (!models_.has(m))
      throw error(errc::unknown_name, std::string(where) + ": " +
                                          std::to_string(static_cast<std::uint32_t>(m)) +
                                          " is no model, expected one that add_model() returned");
  }

  template <class F>
  void for_each_client(F f) {
    for (client& c : clients_) f(c);
  }

  Device& device_;
  model_table models_;

private:
  std::deque<client> clients_;
};

} // namespace gsched
