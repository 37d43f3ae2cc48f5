// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "experiment.hpp"

#include <gsched/cuda/device.hpp>
#include <gsched/cuda_tools/stand_in.hpp>
#include <gsched/dispatch/dispatcher.hpp>
#include <gsched/job/profile.hpp>
#include <gsched/occupancy/aggregate_accountant.hpp>
#include <gsched/policy/fifo.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace segment_cost {

struct subject_options {
  int gpu = 0;
  double target_us = 0; ///< of a segment
  bool whole = false;   ///< also has the graph of all operations
};

/// One model, loaded on its own device to be cut into segments of one length.
class subject {
public:
  subject(const gsched::profile& model, const subject_options& how);

  /// Host time, in microseconds, from the submission of the first segment until the end of the last
  /// one is observed, with at most that many in flight.
  [[nodiscard]] double replay(std::size_t in_flight);
  /// All operations as one segment.
  [[nodiscard]] double replay_whole();
  /// As a job of a dispatcher with two segments in flight.
  [[nodiscard]] double dispatch();

  [[nodiscard]] double target_us() const { return how_.target_us; }
  [[nodiscard]] std::size_t segments() const { return program_.host().grain_ends().size() - 1; }
  [[nodiscard]] std::size_t operations() const { return program_.host().size(); }
  [[nodiscard]] gsched::cuda::program_memory memory() const {
    return device_.memory_of(program_.host());
  }
  /// Host time of the dispatcher for a segment beyond the driver's calls, so far.
  [[nodiscard]] double dispatcher_us() const;
  /// Host time in the driver's calls for a segment of a dispatcher, so far.
  [[nodiscard]] double driver_us() const;

private:
  struct hears_end : gsched::silent_listener {
    bool ended = false;
    bool good = false;
    void on_end(const gsched::job& j, void*, gsched::time_point) noexcept {
      ended = true;
      good = j.state == gsched::job_state::finished;
    }
  };
  struct run_program {
    const gsched::program* which;
    gsched::task operator()(gsched::job_context& ctx) const {
      ctx.launch(*which);
      co_return;
    }
  };

  [[nodiscard]] static gsched::cuda::device_options device_how(const subject_options& how);
  [[nodiscard]] static gsched::dispatch_options dispatch_how(const subject_options& how);
  void submit(std::size_t first, std::size_t last);
  /// Returns the number of segments that have ended since; throws if one has failed.
  std::size_t poll();

  subject_options how_;
  gsched::cuda::program program_;
  gsched::cuda::device device_;
  gsched::fifo order_;
  gsched::aggregate_accountant account_;
  hears_end hears_;
  run_program body_;
  gsched::dispatcher<gsched::fifo, gsched::cuda::device, gsched::aggregate_accountant, hears_end>
      scheduler_;
  gsched::model_id model_{};
  gsched::client* client_ = nullptr;
  gsched::lane_id lane_{};
  std::uint64_t next_id_ = 0;
  double busy_s_ = 0;           ///< in the dispatcher's calls that did something
  std::uint64_t driver_ns_ = 0; ///< of these
};

} // namespace segment_cost
