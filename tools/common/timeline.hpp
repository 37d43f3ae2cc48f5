// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/device/device.hpp>
#include <gsched/job/job.hpp>
#include <gsched/sim/observer.hpp>
#include <gsched/trace/recorder.hpp>

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace common {

/// What happened in all runs, for ui.perfetto.dev: for each run its requests by class, its
/// decisions, the segments on each lane as the device ran them, when lanes were held, and how many
/// SMs held blocks.
class timeline {
public:
  static constexpr std::size_t capacity = 1u << 20; ///< events of all runs

  /// `runs`: how many follow. Each has an equal part of the capacity, and what runs before it left
  /// of theirs; events beyond are left out.
  timeline(const std::vector<std::string>& models, std::size_t runs, std::size_t events = capacity);

  /// The next run: its tracks carry its name.
  void begin_run(const std::string& name);

  void arrived(const gsched::job& j, std::uint32_t model) noexcept;
  void decided(const gsched::job& j, const gsched::segment& s, gsched::duration expected,
               gsched::time_point now) noexcept;
  void ended(const gsched::job& j, std::uint32_t model, gsched::time_point now) noexcept;

  /// Of a device that tells no more: a segment is drawn from its submission, or the end of the one
  /// before it on its lane, until it was seen to have ended.
  void submitted(const gsched::job& j, const gsched::segment& s, gsched::time_point now) noexcept;
  void landed(gsched::segment_id id, gsched::time_point now) noexcept;

  /// A lane that makes way when told to (gsched::preemptive_device), named before the run: what it
  /// waits for, and how long it is held.
  void yields(gsched::lane_id lane);
  void yielding(gsched::lane_id lane, gsched::time_point now) noexcept;
  void yielded(gsched::lane_id lane, gsched::time_point now) noexcept;
  void resuming(gsched::lane_id lane, gsched::time_point now) noexcept;
  void resumed(gsched::lane_id lane, gsched::time_point now) noexcept;

  /// Hears the simulated device; valid while the timeline is in place.
  [[nodiscard]] gsched::sim::observer device_observer() noexcept;

  void end_run();
  /// Writes the file, and a line on stderr that names the runs of which something was left out.
  /// Errors   gsched::error (io).
  void save(const std::string& program, const std::filesystem::path& file) const;

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

  struct loss {
    std::string run;
    std::uint64_t events = 0;
  };

  gsched::trace::recorder recorder_;
  std::size_t runs_left_;
  std::uint64_t dropped_before_ = 0; ///< the present run
  std::vector<loss> losses_;
  std::vector<gsched::trace::label_id> requests_; ///< by model
  std::vector<gsched::trace::label_id> segments_; ///< by model
  gsched::trace::label_id decision_{};
  gsched::trace::label_id busy_sms_{};
  std::string run_;
  gsched::trace::track_id jobs_{};
  std::optional<gsched::trace::track_id> real_time_; ///< of their requests, if there are any
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

  struct hold {
    gsched::trace::track_id track{};
    gsched::time_point since{}; ///< of what it is at
  };
  void held_until(gsched::lane_id lane, gsched::trace::label_id what,
                  gsched::time_point now) noexcept;
  std::map<gsched::lane_id, hold> holds_;
  gsched::trace::label_id yielding_{};
  gsched::trace::label_id held_{};
  gsched::trace::label_id resuming_{};
};

} // namespace common
