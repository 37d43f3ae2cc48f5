// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/trace/chrome.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <map>
#include <ostream>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace gsched::trace {

enum class track_id : std::uint32_t {};
enum class label_id : std::uint32_t {};

/// Keeps what happened in memory, to be written when it is over. Tracks and labels are named before
/// the run; events then name them by number.
///
/// Errors   when it is full, or at its limit, it keeps what it has and counts what it drops.
/// Cost     an event O(1), 48 bytes, no allocation, lock or throw.
/// Threads  one owner; no locking.
class recorder {
public:
  explicit recorder(std::size_t capacity) : records_(capacity) {}

  /// Set-up. Tracks with one process name stand together, in the order in which they were added.
  [[nodiscard]] track_id add_track(std::string_view process, std::string thread) {
    auto known = std::find(processes_.begin(), processes_.end(), process);
    if (known == processes_.end()) known = processes_.emplace(known, process);
    const auto number = static_cast<std::uint32_t>(known - processes_.begin()) + 1;
    const auto id = static_cast<std::uint32_t>(tracks_.size());
    tracks_.push_back({{number, id + 1}, std::move(thread)});
    return track_id{id};
  }

  /// Set-up. The keys are of the two numbers that events of this label carry; empty: not written.
  [[nodiscard]] label_id add_label(std::string name, std::string first = {},
                                   std::string second = {}) {
    labels_.push_back({std::move(name), std::move(first), std::move(second)});
    return label_id{static_cast<std::uint32_t>(labels_.size() - 1)};
  }

  void complete(track_id t, label_id l, time_point start, duration length, std::uint64_t first = 0,
                std::uint64_t second = 0) noexcept {
    keep({start, length.count(), first, second, t, l, kind::complete});
  }
  void instant(track_id t, label_id l, time_point at, std::uint64_t first = 0,
               std::uint64_t second = 0) noexcept {
    keep({at, 0, first, second, t, l, kind::instant});
  }
  /// Spans of one label may overlap; id tells them apart.
  void begin(track_id t, label_id l, time_point at, std::uint64_t id) noexcept {
    keep({at, 0, id, 0, t, l, kind::begin});
  }
  void end(track_id t, label_id l, time_point at, std::uint64_t id) noexcept {
    keep({at, 0, id, 0, t, l, kind::end});
  }
  void counter(track_id t, label_id l, time_point at, double value) noexcept {
    keep({at, std::bit_cast<std::int64_t>(value), 0, 0, t, l, kind::counter});
  }

  /// Drops what comes beyond `events` in all, at most the capacity, until there is another limit.
  void limit(std::size_t events) noexcept { limit_ = std::min(events, records_.size()); }

  [[nodiscard]] std::size_t capacity() const noexcept { return records_.size(); }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] std::uint64_t dropped() const noexcept { return dropped_; }

  /// Writes all of it. Spans whose end was dropped or never came end at the last time seen, and an
  /// end without a beginning is left out, so that what is written is balanced.
  void write(std::ostream& out) const {
    chrome_writer w(out);
    for (std::size_t p = 0; p < processes_.size(); ++p)
      w.name_process(static_cast<std::uint32_t>(p) + 1, processes_[p]);
    for (const named_track& t : tracks_) w.name_thread(t.at, t.name);

    std::map<span_key, track> spans;
    time_point last{};
    for (std::size_t i = 0; i < size_; ++i) {
      const record& r = records_[i];
      last = std::max(last, r.what == kind::complete ? r.at + duration{r.payload} : r.at);
      write_one(w, r, spans);
    }
    for (const auto& [key, t] : spans)
      w.end(t, labels_[std::get<1>(key)].name, last, std::get<2>(key));
    w.finish(dropped_);
  }

private:
  enum class kind : std::uint8_t { complete, begin, end, counter, instant };

  struct record {
    time_point at{};
    std::int64_t payload = 0; ///< length in ns, or the counter's bits
    std::uint64_t first = 0;
    std::uint64_t second = 0;
    track_id row{};
    label_id label{};
    kind what = kind::instant;
  };
  static_assert(sizeof(record) == 48);

  struct named_track {
    track at;
    std::string name;
  };
  struct label {
    std::string name;
    std::string first;
    std::string second;
  };
  using span_key = std::tuple<std::uint32_t, std::uint32_t, std::uint64_t>; // process, label, id

  void keep(const record& r) noexcept {
    if (size_ >= limit_) {
      ++dropped_;
      return;
    }
    records_[size_++] = r;
  }

  void write_one(chrome_writer& w, const record& r, std::map<span_key, track>& spans) const {
    const auto number = static_cast<std::uint32_t>(r.label);
    const track t = tracks_[static_cast<std::size_t>(r.row)].at;
    const label& l = labels_[number];
    switch (r.what) {
    case kind::complete:
      w.complete(t, l.name, r.at, duration{r.payload}, {{l.first, r.first}, {l.second, r.second}});
      break;
    case kind::instant:
      w.instant(t, l.name, r.at, {{l.first, r.first}, {l.second, r.second}});
      break;
    case kind::counter: w.counter(t, l.name, r.at, std::bit_cast<double>(r.payload)); break;
    case kind::begin:
      if (spans.try_emplace({t.process, number, r.first}, t).second)
        w.begin(t, l.name, r.at, r.first);
      break;
    case kind::end:
      if (spans.erase({t.process, number, r.first}) == 1) w.end(t, l.name, r.at, r.first);
      break;
    }
  }

  std::vector<record> records_;
  std::size_t limit_ = records_.size();
  std::size_t size_ = 0;
  std::uint64_t dropped_ = 0;
  std::vector<std::string> processes_;
  std::vector<named_track> tracks_;
  std::vector<label> labels_;
};

} // namespace gsched::trace
