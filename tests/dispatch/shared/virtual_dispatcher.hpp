// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dispatch/shared/any_dispatcher.hpp"

#include <gsched/dispatch/dispatcher.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <utility>

namespace gsched::test {

/// A dispatcher as any_dispatcher. For sources that compile dispatchers for tests.
template <class Policy, class Device, class Accountant>
class virtual_dispatcher final : public any_dispatcher {
public:
  virtual_dispatcher(Device& on, Policy& order, Accountant& account, any_listener& hears,
                     const dispatch_options& how)
      : on_(on), is_(on, order, account, hears, how) {}

  void load(program& p) override { is_.load(p); }
  void unload(program& p) override { is_.unload(p); }
  [[nodiscard]] model_id add_model(std::string name, job_body body,
                                   std::span<const program* const> expected,
                                   std::uint32_t instances) override {
    return is_.add_model(std::move(name), body, expected, instances);
  }
  void add_replica(model_id m, const program& replica, const program& of) override {
    is_.add_replica(m, replica, of);
  }
  void exclude(model_id a, model_id b) override { is_.exclude(a, b); }
  void add_padded(const program& real_time, const program& corunner, std::uint32_t from,
                  std::uint32_t to, const program& padded) override {
    is_.add_padded(real_time, corunner, from, to, padded);
  }
  void remove(model_id m) override { is_.remove(m); }
  [[nodiscard]] const estimator& estimate_of(model_id m) const noexcept override {
    return is_.estimate_of(m);
  }
  [[nodiscard]] client& add_client(double weight) override { return is_.add_client(weight); }

  job_id submit(const job_request& r) override { return is_.submit(r); }
  bool release(job_id id) noexcept override { return is_.release(id); }
  bool fail(job_id id, std::exception_ptr why) noexcept override {
    return is_.fail(id, std::move(why));
  }
  bool cancel(job_id id) noexcept override { return is_.cancel(id); }
  void cancel_all() noexcept override { is_.cancel_all(); }

  bool step() override { return is_.step(); }
  [[nodiscard]] time_point step_by() const noexcept override { return is_.step_by(); }
  [[nodiscard]] time_point now() const noexcept override { return on_.now(); }
  void wait(time_point until) noexcept override { on_.wait(until); }

  [[nodiscard]] bool idle() const noexcept override { return is_.idle(); }
  [[nodiscard]] bool nothing_in_flight() const noexcept override { return is_.nothing_in_flight(); }
  [[nodiscard]] std::size_t held() const noexcept override { return is_.held(); }
  [[nodiscard]] const dispatch_statistics& statistics() const noexcept override {
    return is_.statistics();
  }
  [[nodiscard]] const preemption_statistics& preemption() const noexcept override {
    return is_.preemption();
  }
  [[nodiscard]] sm_count reserved(model_id m) const noexcept override { return is_.reserved(m); }
  [[nodiscard]] const reserve_choice& choice_of(model_id m) const noexcept override {
    return is_.choice_of(m);
  }

private:
  Device& on_;
  dispatcher<Policy, Device, Accountant, any_listener> is_;
};

template <class Policy, class Device, class Accountant>
std::unique_ptr<any_dispatcher> make_any_dispatcher(Device& on, Policy& order, Accountant& account,
                                                    any_listener& hears,
                                                    const dispatch_options& how) {
  return std::make_unique<virtual_dispatcher<Policy, Device, Accountant>>(on, order, account, hears,
                                                                          how);
}

} // namespace gsched::test
