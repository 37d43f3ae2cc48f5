// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/device/device.hpp>
#include <gsched/job/job.hpp>
#include <gsched/sim/observer.hpp>
#include <gsched/trace/recorder.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace common {

/// Records several runs for ui.perfetto.dev. Each run is a process with these tracks: its requests,
/// with client, deadline and end; the work on each lane; the preemptions of each lane that yields;
/// and the mean number of SMs that hold blocks.
///
/// Segments of one request that follow each other on a lane are one slice, with their number.
class timeline {
public:
  static constexpr std::size_t capacity = 1u << 20;     ///< events of all runs
  static constexpr std::size_t file_bytes = 10'000'000; ///< at most
  static constexpr std::size_t most_samples = 512;      ///< of busy SMs, of each run
  static constexpr std::size_t most_lanes = 32;         ///< with a track of their own

  /// `runs`: how many follow. Each has an equal part of the capacity and what earlier runs did not
  /// use of theirs; later events are dropped.
  timeline(const std::vector<std::string>& models, std::size_t runs, std::size_t events = capacity,
           std::size_t bytes = file_bytes);

  /// Begins the next run, whose tracks are listed below its name.
  void begin_run(const std::string& name);

  /// The number of lanes of the run, before its first event. More than most_lanes share one track.
  void use_lanes(std::size_t lanes) noexcept { shares_track_ = lanes > most_lanes; }

  void arrived(const gsched::job& j, std::uint32_t model) noexcept;
  /// Errors   none; an end without arrival is ignored.
  void ended(const gsched::job& j, std::uint32_t model, gsched::time_point now) noexcept;

  /// For a device that reports submission and completion only: a segment runs from its submission,
  /// or the end of the one before it on its lane, until its completion is seen.
  void submitted(const gsched::job& j, const gsched::segment& s, gsched::time_point now) noexcept;
  void completed(gsched::segment_id id, gsched::time_point now) noexcept;

  /// Adds a track for the preemptions of a lane of a gsched::preemptive_device.
  void watch(gsched::lane_id lane);
  void yielding(gsched::lane_id lane, gsched::time_point now) noexcept;
  void yielded(gsched::lane_id lane, gsched::time_point now) noexcept;
  void resuming(gsched::lane_id lane, gsched::time_point now) noexcept;
  void resumed(gsched::lane_id lane, gsched::time_point now) noexcept;

  /// For the simulated device; valid as long as the timeline stays in place.
  [[nodiscard]] gsched::sim::observer device_observer() noexcept;

  void end_run();
  /// Writes the file, and a line on stderr for what is missing in it.
  /// Errors   gsched::error (io).
  void save(const std::string& program, const std::filesystem::path& file) const;

private:
  /// The slice that a lane is at.
  struct lane_state {
    gsched::trace::track_id track{};
    gsched::segment_id segment{}; ///< the last one
    gsched::job_id owner{};
    std::uint32_t model = 0;
    std::uint64_t segments = 0; ///< 0: none is open
    gsched::time_point start{};
    gsched::time_point end{};
  };
  struct flight {
    gsched::lane_id lane{};
    gsched::job_id owner{};
    gsched::time_point submitted{};
  };
  struct preemption_track {
    gsched::trace::track_id track{};
    gsched::time_point since{}; ///< the last change
  };
  struct loss {
    std::string run;
    std::uint64_t events = 0;
  };

  /// Mean SMs over equal intervals of a run; intervals double when there are too many.
  class sampled_counter {
  public:
    void set(gsched::time_point at, double value);
    void clear() noexcept { *this = sampled_counter{}; }
    /// f(begin of the interval, mean) for each, until the last change.
    template <class F>
    void each(F f);

  private:
    void advance(gsched::time_point to);

    gsched::duration interval_ = std::chrono::microseconds{100};
    std::vector<double> sums_; ///< SM nanoseconds, by interval
    std::optional<gsched::time_point> begin_;
    gsched::time_point last_{};
    double value_ = 0;
  };

  lane_state& lane_of(gsched::lane_id id);
  void extend(lane_state& l, gsched::job_id owner, gsched::segment_id segment,
              gsched::time_point start);
  void close(lane_state& l);
  void started(gsched::time_point at, const gsched::sim::operation_mark& m);
  void preempted_until(gsched::lane_id lane, gsched::trace::label_id what,
                       gsched::time_point now) noexcept;
  [[nodiscard]] gsched::trace::track_id requests_of(const gsched::job& j) const noexcept;
  [[nodiscard]] gsched::trace::label_id label_of(const gsched::job& j,
                                                 std::uint32_t model) const noexcept;

  gsched::trace::recorder recorder_;
  std::size_t bytes_;
  std::size_t runs_left_;
  std::uint64_t dropped_before_ = 0; ///< this run
  std::vector<loss> losses_;
  std::vector<gsched::trace::label_id> requests_; ///< by model
  std::vector<gsched::trace::label_id> timed_;    ///< by model, of requests with a deadline
  std::vector<gsched::trace::label_id> slices_;   ///< by model
  gsched::trace::label_id busy_sms_{};
  std::string run_;
  gsched::trace::track_id jobs_{};
  std::optional<gsched::trace::track_id> real_time_; ///< if there are any
  gsched::trace::track_id sms_{};
  std::optional<gsched::trace::track_id> shared_; ///< of all lanes
  bool shares_track_ = false;
  std::map<gsched::lane_id, lane_state> lanes_;
  std::map<gsched::job_id, std::uint32_t> model_of_; ///< of active requests
  std::map<gsched::segment_id, flight> flights_;
  sampled_counter busy_;
  std::map<gsched::lane_id, preemption_track> preemptions_;
  gsched::trace::label_id yielding_{};
  gsched::trace::label_id yielded_{};
  gsched::trace::label_id resuming_{};
  gsched::trace::label_id finished_{}, missed_{}, rejected_{}, cancelled_{}, failed_{};
};

} // namespace common
