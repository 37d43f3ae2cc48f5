// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/device/preemptive_device.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <random>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

/// A preemptive device whose lanes run concurrently, one operation after another, each for its
/// expected time. It checks the caller's part of the contract and logs the operations of each job:
/// every job runs the operations of its program in order, each once, round after round. What the
/// concept leaves open is random: how many segments that have not started stay on a lane, and when
/// an event arrives.
class yielding_device {
public:
  struct options {
    std::uint64_t seed = 1;
    std::uint64_t fails_one_in = 0; ///< segments; 0: none
    bool takes_back = true;         ///< segments that have not started, at random
    double contention = 1;          ///< a segment of a whole-device lane is slower by this factor
    bool side_hurts = false;        ///< ... when it starts while a side lane has work
    gsched::duration most_latency = gsched::from_us(8);
  };

  yielding_device(std::uint32_t lanes, options o) : how_(o), random_(o.seed) {
    limits_.sm = gsched::limits_for(9, 0);
    limits_.sms = gsched::sm_count{132};
    limits_.lanes = lanes;
    lanes_.reserve(lanes);
    events_.resize(1 << 14);
  }

  gsched::lane_id open_lane(const gsched::lane_options& o) {
    lanes_.emplace_back().how = o;
    return gsched::lane_id{static_cast<std::uint32_t>(lanes_.size() - 1)};
  }
  void load(gsched::program& p) {
    p.set_id(gsched::program_id{static_cast<std::uint32_t>(left_.size())});
    left_.emplace_back();
    sizes_.push_back(p.size());
  }

  [[nodiscard]] std::error_code submit(const gsched::segment& s) noexcept {
    catch_up();
    lane& l = lanes_[index(s.lane)];
    owed_ += l.is != standing::on;
    if (l.count == queue) return gsched::errc::too_small;
    entry& e = l.at(l.count++);
    e = {};
    e.id = s.id;
    e.owner = index(s.owner);
    e.program = last_program_ = s.program;
    e.first = s.first;
    e.operations = s.operations;
    if (l.count == 1) l.clock = now_;
    return {};
  }

  [[nodiscard]] std::size_t poll(std::span<gsched::device_event> out) noexcept {
    catch_up();
    std::size_t n = 0;
    while (n < out.size() && head_ != tail_ && events_[head_ % events_.size()].seen <= now_)
      out[n++] = events_[head_++ % events_.size()].event;
    return n;
  }

  [[nodiscard]] std::size_t evict(gsched::lane_id id) noexcept {
    catch_up();
    lane& l = lanes_[index(id)];
    std::size_t n = 0;
    while (l.count > 0 && !l.at(l.count - 1).started) {
      --l.count;
      ++n;
    }
    return n;
  }

  void yield(gsched::lane_id id) noexcept {
    catch_up();
    lane& l = lanes_[index(id)];
    owed_ += l.is != standing::on || !l.how.yields;
    ++yields;
    l.is = standing::stopping;
    if (l.count == 0 || !l.at(0).started) return stop(l);
    const entry& e = l.at(0);
    const bool preemptible =
        std::all_of(e.operations.begin(), e.operations.end(), [](const auto* op) {
          return op->preemptible != gsched::preemptibility::never;
        });
    if (preemptible) stop(l);
  }
  void resume(gsched::lane_id id) noexcept {
    catch_up();
    lane& l = lanes_[index(id)];
    owed_ += l.is != standing::yielded || l.told > now_;
    l.is = standing::on;
    l.clock = now_;
    tell(l, gsched::device_event::kind::lane_resumed);
  }

  void wait(gsched::time_point t) noexcept {
    gsched::time_point next = t;
    if (head_ != tail_) next = std::min(next, events_[head_ % events_.size()].seen);
    for (lane& l : lanes_)
      if (runs(l)) next = std::min(next, l.clock + l.at(0).rest);
    if (next != gsched::time_point::max()) now_ = std::max(now_, next);
    catch_up();
  }

  [[nodiscard]] gsched::time_point now() const noexcept { return now_; }
  [[nodiscard]] const gsched::device_limits& limits() const noexcept { return limits_; }

  /// Violations of the caller's part, and of the order of a job's operations.
  [[nodiscard]] std::uint64_t breaches() const noexcept { return owed_ + disorder_; }
  [[nodiscard]] std::uint64_t ran(gsched::job_id id) const noexcept {
    return index(id) < cursor_.size() ? cursor_[index(id)] : 0;
  }
  [[nodiscard]] bool nothing_left() const noexcept {
    return std::all_of(left_.begin(), left_.end(), [](const remainder& r) { return !r.is; });
  }
  [[nodiscard]] const gsched::lane_options& how(gsched::lane_id id) const noexcept {
    return lanes_[index(id)].how;
  }
  [[nodiscard]] gsched::duration served(gsched::lane_id id) const noexcept {
    return lanes_[index(id)].served;
  }
  /// Operations [first, first + n) of a job's program have ended inside another program.
  void carried(gsched::job_id owner, gsched::program_id of, std::uint32_t first, std::size_t n) {
    if (index(owner) >= cursor_.size()) cursor_.resize(index(owner) + 1);
    disorder_ += cursor_[index(owner)] % sizes_[index(of)] != first;
    owed_ += left_[index(of)].is;
    cursor_[index(owner)] += n;
  }
  /// The segment that ends next fails.
  void fail_next() noexcept { fail_next_ = true; }
  [[nodiscard]] gsched::program_id last_submitted() const noexcept { return last_program_; }
  void reserve_jobs(std::size_t n) { cursor_.reserve(n); }

  std::uint64_t yields = 0;
  std::uint64_t preempted = 0;

private:
  static constexpr std::size_t queue = 64;
  enum class standing : std::uint8_t { on, stopping, yielded };

  struct entry {
    gsched::segment_id id{};
    std::uint64_t owner = 0;
    gsched::program_id program{};
    std::uint32_t first = 0;
    std::uint32_t ended = 0;
    bool started = false;
    double slow = 1;
    gsched::duration rest{}; ///< of its current operation
    std::span<const gsched::operation* const> operations{};
  };
  struct lane {
    gsched::lane_options how{};
    standing is = standing::on;
    std::array<entry, queue> ring{};
    std::size_t first = 0;
    std::size_t count = 0;
    gsched::time_point clock{};
    gsched::time_point told{}; ///< when its last event is visible
    gsched::duration served{};
    entry& at(std::size_t i) { return ring[(first + i) % queue]; }
    void pop() {
      first = (first + 1) % queue;
      --count;
    }
  };
  struct remainder { ///< the rest of an operation that was stopped half-way
    bool is = false;
    std::uint32_t operation = 0;
    gsched::duration rest{};
  };
  struct word {
    gsched::time_point seen{};
    gsched::device_event event{};
  };

  static bool runs(const lane& l) {
    return l.count > 0 &&
           (l.is == standing::on || (l.is == standing::stopping && l.ring[l.first].started));
  }

  void catch_up() noexcept {
    for (lane& l : lanes_)
      while (runs(l) && run(l)) {
      }
  }

  /// Runs one operation, or as much of it as there is time for: then false.
  bool run(lane& l) noexcept {
    entry& e = l.at(0);
    if (!e.started) start(e, l);
    const gsched::duration passed = std::min(e.rest, now_ - l.clock);
    e.rest -= passed;
    l.clock += passed;
    l.served += passed;
    if (e.rest > gsched::duration::zero()) return false;
    ended(e);
    if (e.ended == e.operations.size()) {
      const bool fails = std::exchange(fail_next_, false) ||
                         (how_.fails_one_in > 0 && random_() % how_.fails_one_in == 0);
      using kind = gsched::device_event::kind;
      tell(l, fails ? kind::segment_failed : kind::segment_done, e.id);
      l.pop();
    } else {
      e.slow = slow(l);
      e.rest = cost(e);
    }
    if (l.is == standing::stopping) stop(l);
    return true;
  }

  void start(entry& e, const lane& l) noexcept {
    e.started = true;
    e.slow = slow(l);
    e.rest = cost(e);
    if (e.program == gsched::no_program) return;
    remainder& r = left_[index(e.program)];
    if (!r.is) return;
    owed_ += r.operation != e.first; // the rest of a program comes first
    if (r.operation == e.first) e.rest = r.rest;
    r.is = false;
  }

  /// The factor for the time of the lane's next operation.
  [[nodiscard]] double slow(const lane& l) const noexcept {
    if (l.how.sms.count() > 0) return 132.0 / l.how.sms.count();
    if (l.how.reserved.count() > 0) return 132.0 / (132 - l.how.reserved.count());
    const bool beside = std::any_of(lanes_.begin(), lanes_.end(), [](const lane& o) {
      return o.how.sms.count() > 0 && o.count > 0;
    });
    return how_.side_hurts && beside ? how_.contention : 1;
  }

  [[nodiscard]] gsched::duration cost(const entry& e) const noexcept {
    return gsched::duration{static_cast<gsched::duration::rep>(
        static_cast<double>(e.operations[e.ended]->expected.count()) * e.slow)};
  }

  void ended(entry& e) noexcept {
    if (e.owner >= cursor_.size()) cursor_.resize(e.owner + 1);
    if (e.program != gsched::no_program)
      disorder_ += cursor_[e.owner] % sizes_[index(e.program)] != e.first + e.ended;
    ++cursor_[e.owner];
    ++e.ended;
  }

  void stop(lane& l) noexcept {
    using kind = gsched::device_event::kind;
    l.is = standing::yielded;
    std::size_t stay = 0;
    if (l.count > 0 && l.at(0).started) {
      const entry& e = l.at(0);
      bool preemptible = true;
      for (const auto* op : e.operations)
        preemptible &= op->preemptible != gsched::preemptibility::never;
      stay = preemptible ? 0 : 1;
      if (preemptible && e.program != gsched::no_program)
        left_[index(e.program)] = {true, e.first + e.ended, e.rest};
    }
    if (stay == 1 || l.count == 0 || !l.at(0).started) // it may withdraw some of the others
      stay = how_.takes_back && l.count > stay ? stay + random_() % (l.count - stay + 1) : l.count;
    for (std::size_t i = stay; i < l.count; ++i) {
      tell(l, kind::segment_preempted, l.at(i).id, l.at(i).ended);
      ++preempted;
    }
    l.count = stay;
    tell(l, kind::lane_yielded);
  }

  void tell(lane& l, gsched::device_event::kind what, gsched::segment_id id = {},
            std::uint32_t operation = 0) noexcept {
    word& w = events_[tail_++ % events_.size()];
    const auto most = static_cast<std::uint64_t>(how_.most_latency.count()) + 1;
    const gsched::duration late{static_cast<gsched::duration::rep>(random_() % most)};
    last_ = std::max(last_, std::max(now_, l.clock) + late);
    w.seen = l.told = last_;
    w.event = {};
    w.event.what = what;
    w.event.segment = id;
    w.event.operation = operation;
    w.event.lane = gsched::lane_id{static_cast<std::uint32_t>(&l - lanes_.data())};
  }

  options how_;
  std::mt19937_64 random_;
  gsched::device_limits limits_{};
  std::vector<lane> lanes_;
  std::vector<remainder> left_;       ///< by program
  std::vector<std::size_t> sizes_;    ///< by program
  std::vector<std::uint64_t> cursor_; ///< by job: operations that have ended
  std::vector<word> events_;
  std::size_t head_ = 0;
  std::size_t tail_ = 0;
  gsched::time_point now_{};
  gsched::time_point last_{};
  bool fail_next_ = false;
  gsched::program_id last_program_ = gsched::no_program;
  std::uint64_t owed_ = 0;
  std::uint64_t disorder_ = 0;
};

static_assert(gsched::preemptive_device<yielding_device>);
