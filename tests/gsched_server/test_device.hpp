// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gsched_server/devices/serving_device.hpp"
#include "gsched_server/devices/simulated_model.hpp"
#include "gsched_server/devices/start_server.hpp"

#include <gsched/core/error.hpp>
#include <gsched/sim/paced_device.hpp>
#include <gsched/sim/preset.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <vector>

/// What a test does to its devices.
struct device_control {
  std::atomic<bool> held{false}; ///< nothing on it ends
  std::atomic<bool> broken{false};
};

/// A simulated GPU that can be held, and can fail.
class controlled_device : public gsched::sim::paced_device {
public:
  controlled_device(const gsched::sim::preset& p, device_control& by) : paced_device(p), by_(&by) {}

  [[nodiscard]] std::error_code submit(const gsched::segment& s) noexcept {
    if (!by_->broken) return paced_device::submit(s);
    failure_ = "it broke";
    return gsched::errc::device_failed;
  }
  [[nodiscard]] std::size_t poll(std::span<gsched::device_event> out) noexcept {
    if (by_->held) return 0;
    const std::size_t n = paced_device::poll(out);
    if (!by_->broken || n == 0) return n;
    failure_ = "it broke";
    for (gsched::device_event& e : out.first(n))
      if (e.what == gsched::device_event::kind::segment_done)
        e.what = gsched::device_event::kind::segment_failed;
    return n;
  }
  [[nodiscard]] const std::optional<std::string>& failure() const noexcept { return failure_; }

private:
  device_control* by_;
  std::optional<std::string> failure_;
};

/// Makes devices of a service that a test controls, one after another.
class controlled_devices {
public:
  explicit controlled_devices(std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) all_.push_back(std::make_unique<device_control>());
  }
  [[nodiscard]] device_control& operator[](std::size_t i) { return *all_[i]; }
  void hold(bool yes) {
    for (const auto& each : all_) each->held = yes;
  }
  [[nodiscard]] gsched_server::make_device make() {
    return
        [this](const common::device_choice&) { return std::make_unique<one>(*all_.at(made_++)); };
  }

private:
  class one final : public gsched_server::serving_device {
  public:
    explicit one(device_control& by) : by_(by) {}
    std::unique_ptr<gsched::server> open(const gsched_server::settings& how,
                                         std::uint32_t number) override {
      return gsched_server::start_server(
          [&by = by_] { return controlled_device(gsched::sim::h200(), by); }, how, number);
    }
    std::unique_ptr<gsched::served_model> make_model(const gsched_server::model_plan& m,
                                                     gsched_server::queued_time& queued) override {
      return gsched_server::simulated_model::make(m, queued);
    }

  private:
    device_control& by_;
  };

  std::vector<std::unique_ptr<device_control>> all_;
  std::size_t made_ = 0;
};
