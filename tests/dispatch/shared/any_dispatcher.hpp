// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dispatch/shared/any_device.hpp"
#include "dispatch/shared/any_listener.hpp"
#include "dispatch/shared/any_policy.hpp"

#include <gsched/device/device.hpp>
#include <gsched/device/preemptive_device.hpp>
#include <gsched/dispatch/detail/instances.hpp>
#include <gsched/dispatch/listener.hpp>
#include <gsched/dispatch/options.hpp>
#include <gsched/dispatch/request.hpp>
#include <gsched/dispatch/statistics.hpp>
#include <gsched/job/context.hpp>
#include <gsched/job/estimate.hpp>
#include <gsched/job/program.hpp>
#include <gsched/occupancy/aggregate_accountant.hpp>
#include <gsched/occupancy/per_sm_accountant.hpp>
#include <gsched/policy/policy.hpp>
#include <gsched/preempt/reserve_choice.hpp>
#include <gsched/preempt/statistics.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

namespace gsched::test {

/// A dispatcher of any policy, device, accountant and listener, behind virtual functions. A test
/// that includes this compiles no dispatcher.
class any_dispatcher {
public:
  any_dispatcher() = default;
  any_dispatcher(const any_dispatcher&) = delete;
  any_dispatcher& operator=(const any_dispatcher&) = delete;
  virtual ~any_dispatcher() = default;

  virtual void load(program&) = 0;
  virtual void unload(program&) = 0;
  [[nodiscard]] virtual model_id add_model(std::string name, job_body,
                                           std::span<const program* const> expected,
                                           std::uint32_t instances) = 0;
  [[nodiscard]] model_id add_model(std::string name, job_body body,
                                   const program* expected = nullptr,
                                   std::uint32_t instances = instance_pool::unlimited) {
    return add_model(std::move(name), body, {&expected, expected != nullptr ? 1u : 0u}, instances);
  }
  virtual void add_replica(model_id, const program& replica, const program& of) = 0;
  virtual void exclude(model_id, model_id) = 0;
  virtual void add_padded(const program& real_time, const program& corunner, std::uint32_t from,
                          std::uint32_t to, const program& padded) = 0;
  virtual void remove(model_id) = 0;
  [[nodiscard]] virtual const estimator& estimate_of(model_id) const noexcept = 0;
  [[nodiscard]] virtual client& add_client(double weight = 1.0) = 0;

  virtual job_id submit(const job_request&) = 0;
  virtual bool release(job_id) noexcept = 0;
  virtual bool fail(job_id, std::exception_ptr) noexcept = 0;
  virtual bool cancel(job_id) noexcept = 0;
  virtual void cancel_all() noexcept = 0;

  virtual bool step() = 0;
  [[nodiscard]] virtual time_point step_by() const noexcept = 0;
  // Of its device.
  [[nodiscard]] virtual time_point now() const noexcept = 0;
  virtual void wait(time_point until) noexcept = 0;

  [[nodiscard]] virtual bool idle() const noexcept = 0;
  [[nodiscard]] virtual bool nothing_in_flight() const noexcept = 0;
  [[nodiscard]] virtual std::size_t held() const noexcept = 0;
  [[nodiscard]] virtual const dispatch_statistics& statistics() const noexcept = 0;
  [[nodiscard]] virtual const preemption_statistics& preemption() const noexcept = 0;
  [[nodiscard]] virtual sm_count reserved(model_id) const noexcept = 0;
  [[nodiscard]] virtual const reserve_choice& choice_of(model_id) const noexcept = 0;
};

/// dispatcher<Policy, Device, Accountant, any_listener>, compiled in any_dispatcher.cpp for each
/// kind of policy and device.
template <class Policy, class Device, class Accountant>
[[nodiscard]] std::unique_ptr<any_dispatcher>
make_any_dispatcher(Device& on, Policy& order, Accountant& account, any_listener& hears,
                    const dispatch_options& how);

/// Tag of a constructor.
struct natively_t {};
inline constexpr natively_t natively{};

/// What dispatcher(on, order, account, hears, how) does, for any of its arguments, without
/// compiling another dispatcher:
///
///     const shared_dispatcher made(device, order, account, hears, options);
///     any_dispatcher& d = *made;
class shared_dispatcher {
public:
  /// All arguments passed by reference outlive it.
  template <device Device, policy Policy, class Accountant, listener Listener>
  shared_dispatcher(Device& on, Policy& order, Accountant& account, Listener& hears,
                    const dispatch_options& how = {}) {
    using device_kind = any_device<preemptive_device<Device>>;
    using policy_kind = any_policy<serves_real_time_first<Policy>>;
    const auto parts = std::make_shared<all<device_kind, policy_kind>>(on, order, hears);
    parts_ = parts;
    is_ = make_any_dispatcher(parts->on, parts->order, account, parts->hears, how);
  }
  /// Policy and Device as they are: make_any_dispatcher is compiled for them.
  template <device Device, policy Policy, class Accountant, listener Listener>
  shared_dispatcher(natively_t, Device& on, Policy& order, Accountant& account, Listener& hears,
                    const dispatch_options& how) {
    const auto told = std::make_shared<any_listener>(hears);
    parts_ = told;
    is_ = make_any_dispatcher(on, order, account, *told, how);
  }
  [[nodiscard]] any_dispatcher& operator*() const noexcept { return *is_; }
  [[nodiscard]] any_dispatcher* operator->() const noexcept { return is_.get(); }

private:
  template <class Device, class Policy>
  struct all {
    all(auto& d, auto& p, auto& l) : on(d), order(p), hears(l) {}
    Device on;
    Policy order;
    any_listener hears;
  };

  std::shared_ptr<void> parts_; ///< outlives the dispatcher
  std::unique_ptr<any_dispatcher> is_;
};

} // namespace gsched::test
