// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gsched_server/devices/queued_time.hpp"
#include "gsched_server/settings/settings.hpp"

#include "common/cli/device_option.hpp"

#include <gsched/occupancy/limits.hpp>
#include <gsched/server/model.hpp>
#include <gsched/server/request_record.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace gsched {
class server;
}

namespace gsched_server {

/// A model on one device. Requests whose `user` is not set are those of the channel.
class placed_model : public gsched::served_model {
public:
  placed_model(std::string called, std::vector<gsched::model_instance> all, queued_time& queued)
      : served_model(std::move(called), std::move(all)), queued_(queued) {}

protected:
  /// For the body of a request to hold: counts those that the service has not placed.
  [[nodiscard]] queued_time::share counted(const gsched::request_record& r) const noexcept {
    return {queued_, r.user == nullptr ? facts.expected : gsched::duration::zero()};
  }

private:
  queued_time& queued_;
};

/// A kind of device on which a service runs: a simulated GPU, a real one, or a test's. It makes
/// what differs between them, and outlives its server.
///
/// Errors   gsched::error with one line.
class serving_device {
public:
  virtual ~serving_device() = default;

  /// Opens it, under a server. It has this number among the settings' devices.
  [[nodiscard]] virtual std::unique_ptr<gsched::server> open(const settings& how,
                                                             std::uint32_t number) = 0;
  /// A model of its server: of a profile, or of an adaptor.
  [[nodiscard]] virtual std::unique_ptr<gsched::served_model> make_model(const model_plan& m,
                                                                         queued_time& queued) = 0;
  /// Registers memory that other processes share with this one, and reverts that.
  virtual void pin(std::span<std::byte>) {}
  virtual void unpin(std::span<std::byte>) noexcept {}
};

using make_device =
    std::function<std::unique_ptr<serving_device>(const common::device_choice& which)>;

/// Errors   no_device
[[nodiscard]] std::unique_ptr<serving_device> device_of(const common::device_choice& which);
/// The same of a GPU; in a build without CUDA an error.
[[nodiscard]] std::unique_ptr<serving_device> cuda_device_of(const common::device_choice& which);
[[nodiscard]] gsched::architecture_limits cuda_sm_of(const common::device_choice& which);
/// What fits on one of its SMs.
/// Errors   no_device; those of a preset's file
[[nodiscard]] gsched::architecture_limits sm_of(const common::device_choice& which);

} // namespace gsched_server
