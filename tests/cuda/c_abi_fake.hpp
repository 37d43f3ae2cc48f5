// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "refusal.hpp"

#include <gsched/cuda/action.hpp>
#include <gsched/device/device.hpp>
#include <gsched/server/events.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace gsched::testing {

/// What a kernel of a fake program does when its segment ends.
struct fake_kernel : cuda::action {
  explicit fake_kernel(void (*f)(void*), void* a = nullptr)
      : action{kind::node}, run(f), argument(a) {}
  void (*run)(void*);
  void* argument;
};

/// How a fake device behaves, told from any thread.
struct fake_control {
  std::atomic<std::int64_t> submits_until_failure{INT64_MAX};
  std::atomic<std::int64_t> submits_until_hang{INT64_MAX};
  std::atomic<bool> hung{false};
  std::atomic<bool> hang_ends{false}; ///< the hung submission reads its copies and returns
  std::atomic<int> read_late{0};      ///< copies that it has read then
  std::atomic<bool> frozen{false};    ///< nothing ends
  std::atomic<int> loads_until_failure{INT32_MAX};
  std::atomic<int> builds_until_failure{INT32_MAX};
  std::atomic<int> launched{0};        ///< segments of programs that were submitted
  std::atomic<int> loaded{0};          ///< programs that the device knows
  std::atomic<int> built{0};           ///< programs of which it has parts, known or not
  std::atomic<bool> builds{true};      ///< else build does not come back
  std::atomic<int> building{0};        ///< calls of build under way
  std::atomic<std::int64_t> hangs{-1}; ///< the program that does, by its id
  /// The program of which the end of a segment is never reported; what is behind it on its lane
  /// does not start.
  std::atomic<std::int64_t> silent{-1};
};

/// What a fake device has built of a program.
class fake_parts {
public:
  explicit fake_parts(std::shared_ptr<fake_control> c) : control_(std::move(c)) {
    ++control_->built;
  }
  fake_parts(fake_parts&&) noexcept = default;
  fake_parts& operator=(fake_parts&&) = delete;
  ~fake_parts() {
    if (control_ != nullptr) --control_->built;
  }

private:
  std::shared_ptr<fake_control> control_;
};

/// Events that complete, fail and are recorded as told from any thread. An event is its own handle.
struct fake_event {
  std::atomic<int> code{600}; ///< 0: complete; 600, as CUDA's: not yet; else it has failed
  std::atomic<int> queries{0};
  std::atomic<int> records{0};
  std::atomic<int> record_code{0};
  std::function<void()> as_asked{};    ///< called on the server's thread
  std::function<void()> as_recorded{}; ///< called on the server's thread
  std::atomic<int> marks{0};           ///< as a stream: events behind it that are there

  /// The event plays a stream's mark as well.
  [[nodiscard]] std::shared_ptr<void> mark() {
    if (code != 600 && code != 0) throw abi::refusal(GSCHED_BAD_ARGUMENT, "wait_stream: bad");
    ++marks;
    return {this, [](void* e) { --static_cast<fake_event*>(e)->marks; }};
  }

  [[nodiscard]] static gsched::event_source source() {
    return {[](void* e) {
              auto& event = *static_cast<fake_event*>(e);
              ++event.queries;
              if (event.as_asked) event.as_asked();
              const int now = event.code;
              using kind = gsched::event_answer::kind;
              if (now == 0) return gsched::event_answer{kind::complete, 0};
              return gsched::event_answer{now == 600 ? kind::pending : kind::failed, now};
            },
            [](void* e) {
              auto& event = *static_cast<fake_event*>(e);
              if (event.as_recorded) event.as_recorded();
              const int result = event.record_code;
              if (result == 0) ++event.records;
              return result;
            },
            [](int failure) { return "CUDA's words for " + std::to_string(failure); },
            [](int failure) { return failure == 1 || failure == 400; }};
  }
};

/// A device in real time without a GPU: a segment takes what its operations expect, then copies are
/// made and kernels called. It fails and hangs on demand.
class fake_device {
public:
  explicit fake_device(std::shared_ptr<fake_control> c) : control_(std::move(c)) {}

  lane_id open_lane(const lane_options&) {
    lanes_.emplace_back();
    return lane_id{static_cast<std::uint32_t>(lanes_.size() - 1)};
  }
  [[nodiscard]] fake_parts build(program& p) {
    ++control_->building;
    while (!control_->builds) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    --control_->building;
    if (control_->builds_until_failure.fetch_sub(1) <= 0)
      throw error(errc::out_of_memory, p.name() + ": out of memory (cudaErrorMemoryAllocation)");
    p.align(from_us(100), 4);
    return fake_parts(control_);
  }
  void load(program& p) { load(p, build(p)); }
  void load(program& p, fake_parts built) {
    if (control_->loads_until_failure.fetch_sub(1) <= 0)
      throw error(errc::out_of_memory, p.name() + ": out of memory (cudaErrorMemoryAllocation)");
    p.set_id(program_id{static_cast<std::uint32_t>(parts_.size())});
    parts_.emplace_back(std::move(built));
    ++control_->loaded;
  }
  [[nodiscard]] fake_parts unload(program& p) {
    for (const std::deque<entry>& lane : lanes_)
      for (const entry& e : lane)
        if (e.program == p.id())
          throw error(errc::bad_option, p.name() + ": a segment of it is in flight, expected none");
    --control_->loaded;
    std::optional<fake_parts>& of = parts_[index(p.id())];
    fake_parts out = std::move(*of);
    of.reset();
    return out;
  }
  [[nodiscard]] bool hangs(program_id p) const noexcept {
    return control_->hangs == static_cast<std::int64_t>(index(p));
  }
  [[nodiscard]] const std::string& why_failed() const noexcept { return why_failed_; }
  [[nodiscard]] std::error_code submit(const segment& s) noexcept {
    if (control_->submits_until_hang.fetch_sub(1) <= 0) {
      control_->hung = true;
      while (!control_->hang_ends) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      for (const operation* op : s.operations)
        if (op->handle != nullptr &&
            static_cast<const cuda::action*>(op->handle)->what == cuda::action::kind::copy)
          ++control_->read_late;
    }
    if (!failure_ && control_->submits_until_failure.fetch_sub(1) <= 0)
      failure_ = "an illegal memory access was encountered (cudaErrorIllegalAddress)";
    if (failure_) return errc::device_failed;
    control_->launched += s.program != no_program;
    std::deque<entry>& lane = lanes_[index(s.lane)];
    duration takes{};
    for (const operation* op : s.operations) takes += op->expected;
    const time_point start = lane.empty() ? now() : std::max(now(), lane.back().end);
    const bool ends = s.program == no_program || !hangs(s.program);
    const bool silent = s.program != no_program && control_->silent == index(s.program);
    lane.push_back({s.id, start + takes, s.operations, ends, silent, s.program});
    if (!ends) why_failed_ = "fake: its kernel hangs";
    return {};
  }
  [[nodiscard]] std::size_t poll(std::span<device_event> out) noexcept {
    std::size_t n = 0;
    if (control_->frozen && !failure_) return 0;
    for (std::deque<entry>& lane : lanes_) {
      while (n < out.size() && !lane.empty() &&
             (failure_ || (lane.front().end <= now() && !lane.front().silent))) {
        const bool ends = !failure_ && lane.front().ends;
        if (ends) run(lane.front());
        out[n] = device_event{};
        out[n].what = ends ? device_event::kind::segment_done : device_event::kind::segment_failed;
        out[n].lost = !ends;
        counts_.hung += !ends && !failure_;
        out[n++].segment = lane.front().id;
        lane.pop_front();
      }
    }
    return n;
  }
  [[nodiscard]] std::size_t evict(lane_id) noexcept { return 0; }
  void wait(time_point t) noexcept {
    while (now() < t) std::this_thread::yield();
  }
  [[nodiscard]] time_point now() const noexcept {
    return time_point{std::chrono::steady_clock::now() - made_};
  }
  [[nodiscard]] const device_limits& limits() const noexcept { return limits_; }
  [[nodiscard]] const std::optional<std::string>& failure() const noexcept { return failure_; }

  struct counts {
    std::uint64_t graph_launches = 1, built_late = 2, driver_ns = 3, expired_leases = 4, opened = 5,
                  found_to_need_sms = 6, hung = 0;
  };
  [[nodiscard]] const counts& statistics() const noexcept { return counts_; }

private:
  struct entry {
    segment_id id{};
    time_point end{};
    std::span<const operation* const> operations{};
    bool ends = true; ///< else it hangs
    bool silent = false;
    program_id program = no_program;
  };

  static void run(const entry& e) noexcept {
    for (const operation* op : e.operations) {
      if (op->handle == nullptr) continue;
      const auto& a = *static_cast<const cuda::action*>(op->handle);
      if (a.what == cuda::action::kind::copy) {
        const auto& c = static_cast<const cuda::copy_action&>(a);
        std::memcpy(c.to, c.from, op->bytes.count());
      } else if (a.what == cuda::action::kind::node) {
        const auto& k = static_cast<const fake_kernel&>(a);
        k.run(k.argument);
      }
    }
  }

  std::shared_ptr<fake_control> control_;
  device_limits limits_{limits_for(9, 0), sm_count{132}, 64};
  std::chrono::steady_clock::time_point made_ = std::chrono::steady_clock::now();
  std::deque<std::deque<entry>> lanes_;
  std::vector<std::optional<fake_parts>> parts_; ///< by program id
  std::string why_failed_;
  std::optional<std::string> failure_;
  counts counts_{};
};

static_assert(device<fake_device>);

} // namespace gsched::testing
