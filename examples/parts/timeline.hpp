// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/device/device.hpp>
#include <gsched/job/job.hpp>
#include <gsched/sim/observer.hpp>
#include <gsched/trace/recorder.hpp>

#include <cstdint>
#include <map>
#include <ostream>
#include <string>
#include <vector>

namespace parts {

/// What happened in all runs, for ui.perfetto.dev: for each policy its requests, its decisions, the
/// segments on each lane as the device ran them, and how many SMs held blocks.
class timeline {
public:
  /// Room for that many events; what is beyond is counted and left out.
  explicit timeline(const std::vector<std::string>& models, std::size_t events = 1u << 20);

  /// The next run: its tracks carry the policy's name.
  void begin_run(const std::string& policy);

  void arrived(const gsched::job& j, std::uint32_t model) noexcept;
  void decided(const gsched::job& j, const gsched::segment& s, gsched::duration expected,
               gsched::time_point now) noexcept;
  void ended(const gsched::job& j, std::uint32_t model, gsched::time_point now) noexcept;

  /// Of a device that tells no more: a segment is drawn from its submission, or the end of the one
  /// before it on its lane, until it was seen to have ended.
  void submitted(const gsched::job& j, const gsched::segment& s, gsched::time_point now) noexcept;
  void landed(gsched::segment_id id, gsched::time_point now) noexcept;

  /// Hears the simulated device; valid while the timeline is in place.
  [[nodiscard]] gsched::sim::observer device_observer() noexcept;

  void end_run();
  void write(std::ostream& out) const { recorder_.write(out); }
  [[nodiscard]] std::uint64_t dropped() const noexcept { return recorder_.dropped(); }

private:
  struct lane_state {
    gsched::trace::track_id track{};
    gsched::segment_id segment{};
    gsched::job_id owner{};
    gsched::time_point start{};
    gsched::time_point end{};
    bool open = false;
  };

  lane_state& lane_of(gsched::lane_id id);
  void close(lane_state& l);
  void started(gsched::time_point at, const gsched::sim::operation_mark& m);
  void occupied(gsched::time_point at, gsched::sm_count sms);

  gsched::trace::recorder recorder_;
  std::vector<gsched::trace::label_id> requests_; ///< by model
  std::vector<gsched::trace::label_id> segments_; ///< by model
  gsched::trace::label_id decision_{};
  gsched::trace::label_id busy_sms_{};
  std::string policy_;
  gsched::trace::track_id jobs_{};
  gsched::trace::track_id decisions_{};
  gsched::trace::track_id sms_{};
  std::map<gsched::lane_id, lane_state> lanes_;
  std::map<gsched::job_id, std::uint32_t> model_of_;
  struct flight {
    gsched::lane_id lane{};
    gsched::job_id owner{};
    gsched::time_point submitted{};
  };
  std::map<gsched::segment_id, flight> flights_;
  gsched::time_point sampled_{};
};

} // namespace parts
