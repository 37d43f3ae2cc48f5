// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/trace/chrome.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <ostream>
#include <set>
#include <streambuf>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace gsched::trace {

enum class track_id : std::uint32_t {};
enum class label_id : std::uint32_t {};

/// A process of which a file has only the first slices, as all do not fit.
struct cut_process {
  std::string name;
  std::uint64_t written = 0; ///< slices
  std::uint64_t slices = 0;  ///< recorded
  std::uint64_t spans = 0;   ///< recorded and not written
};

/// Keeps events in memory and writes them at the end. Tracks and labels are added before the run;
/// events refer to them by number.
///
/// Errors   at its limit it drops new events and counts them.
/// Cost     an event O(1), 48 bytes, no allocation, lock or throw.
/// Threads  one owner; no locking.
class recorder {
public:
  explicit recorder(std::size_t capacity) : records_(capacity) {}

  static constexpr std::size_t unlimited = ~std::size_t{0};

  /// Set-up. The viewer shows the tracks of one process name together, in the order of addition.
  [[nodiscard]] track_id add_track(std::string_view process, std::string thread) {
    auto known = std::find(processes_.begin(), processes_.end(), process);
    if (known == processes_.end()) known = processes_.emplace(known, process);
    const auto number = static_cast<std::uint32_t>(known - processes_.begin()) + 1;
    const auto id = static_cast<std::uint32_t>(tracks_.size());
    tracks_.push_back({{number, id + 1}, std::move(thread)});
    return track_id{id};
  }

  /// Set-up. The keys of the two numbers of an event with this label; a number without a key is not
  /// written.
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
  /// Spans may overlap; id is unique among those of a track and label.
  void begin(track_id t, label_id l, time_point at, std::uint64_t id, std::uint64_t first = 0,
             std::uint64_t second = 0) noexcept {
    keep({at, static_cast<std::int64_t>(id), first, second, t, l, kind::begin});
  }
  void end(track_id t, label_id l, time_point at, std::uint64_t id) noexcept {
    keep({at, static_cast<std::int64_t>(id), no_outcome, 0, t, l, kind::end});
  }
  /// The name of `outcome` is written as the argument "end".
  void end(track_id t, label_id l, time_point at, std::uint64_t id, label_id outcome) noexcept {
    keep({at, static_cast<std::int64_t>(id), static_cast<std::uint64_t>(outcome), 0, t, l,
          kind::end});
  }
  void counter(track_id t, label_id l, time_point at, double value) noexcept {
    keep({at, std::bit_cast<std::int64_t>(value), 0, 0, t, l, kind::counter});
  }

  /// Sets how many events are kept in all, at most the capacity.
  void limit(std::size_t events) noexcept { limit_ = std::min(events, records_.size()); }

  [[nodiscard]] std::size_t capacity() const noexcept { return records_.size(); }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] std::uint64_t dropped() const noexcept { return dropped_; }

  /// Writes a document of at most `max_bytes`. Names, counters and instants are always written,
  /// even if they are larger. Where the rest does not fit, slices are left out first, then spans:
  /// every process has the same room, what one does not need is for the others, and the earliest
  /// events are written. A span whose end is missing ends at the last time recorded; an end without
  /// a beginning is not written. Returns the processes that were cut.
  std::vector<cut_process> write(std::ostream& out, std::size_t max_bytes = unlimited) const {
    const sizes of = measure();
    const std::size_t room = max_bytes > of.fixed ? max_bytes - of.fixed : 0;
    const std::size_t span_share = share_of(of.spans, room);
    const std::size_t slice_share =
        span_share == unlimited ? share_of(of.slices, room - sum_of(of.spans)) : 0;

    std::vector<cut_process> cut(processes_.size());
    std::vector<std::size_t> span_bytes(processes_.size()), slice_bytes(processes_.size());
    chrome_writer w(out);
    write_names(w);
    open_spans open;
    for (std::size_t i = 0; i < size_; ++i) {
      const record& r = records_[i];
      const std::size_t p = process_of(r);
      if (r.what == kind::begin) {
        span_bytes[p] += of.events[i] + of.longest_end;
        if (span_bytes[p] > span_share) {
          ++cut[p].spans;
          continue;
        }
      } else if (r.what == kind::complete) {
        ++cut[p].slices;
        slice_bytes[p] += of.events[i];
        if (slice_bytes[p] > slice_share) {
          if (cut[p].written + 1 == cut[p].slices) write_cut(w, r);
          continue;
        }
        ++cut[p].written;
      }
      write_one(w, r, open);
    }
    end_all(w, open);
    w.finish(dropped_);
    for (std::size_t p = 0; p < cut.size(); ++p) cut[p].name = processes_[p];
    std::erase_if(cut, [](const cut_process& c) { return c.written == c.slices && c.spans == 0; });
    return cut;
  }

private:
  enum class kind : std::uint8_t { complete, begin, end, counter, instant };

  struct record {
    time_point at{};
    std::int64_t payload = 0; ///< a slice's length in ns, a counter's bits, a span's id
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
  using open_spans = std::set<std::tuple<track_id, label_id, std::uint64_t>>; // with the id

  static constexpr std::uint64_t no_outcome = ~std::uint64_t{0};
  static constexpr std::string_view cut_text = "later slices are left out";
  static constexpr std::size_t cut_bytes = 160; ///< of the event that says so, at most

  /// Counts what is written to it.
  class byte_counter : public std::streambuf {
  public:
    std::size_t bytes = 0;

  protected:
    int_type overflow(int_type c) override {
      ++bytes;
      return traits_type::not_eof(c);
    }
    std::streamsize xsputn(const char*, std::streamsize n) override {
      bytes += static_cast<std::size_t>(n);
      return n;
    }
  };

  /// Bytes of the whole document.
  struct sizes {
    std::vector<std::uint32_t> events;
    std::vector<std::size_t> spans, slices; ///< by process
    std::size_t fixed = 0;                  ///< neither spans nor slices
    std::size_t longest_end = 0;            ///< of one event
  };

  [[nodiscard]] sizes measure() const {
    byte_counter count;
    std::ostream sink(&count);
    sizes of{std::vector<std::uint32_t>(size_), std::vector<std::size_t>(processes_.size()),
             std::vector<std::size_t>(processes_.size())};
    {
      chrome_writer w(sink);
      write_names(w);
      open_spans open;
      for (std::size_t i = 0; i < size_; ++i) {
        const record& r = records_[i];
        const std::size_t before = count.bytes;
        write_one(w, r, open);
        const std::size_t bytes = count.bytes - before;
        of.events[i] = static_cast<std::uint32_t>(bytes);
        if (r.what == kind::complete) of.slices[process_of(r)] += bytes;
        if (r.what == kind::begin || r.what == kind::end) of.spans[process_of(r)] += bytes;
        if (r.what == kind::end) of.longest_end = std::max(of.longest_end, bytes);
      }
      for (const auto& key : open) {
        const std::size_t before = count.bytes;
        end_span(w, key, last_time());
        const std::size_t bytes = count.bytes - before;
        of.spans[index_of(tracks_[static_cast<std::size_t>(std::get<0>(key))].at)] += bytes;
        of.longest_end = std::max(of.longest_end, bytes);
      }
      w.finish(dropped_);
    }
    of.fixed = count.bytes - sum_of(of.spans) - sum_of(of.slices) + cut_bytes * processes_.size();
    return of;
  }

  /// The most that each may have so that all have no more than `room` together.
  [[nodiscard]] static std::size_t share_of(std::vector<std::size_t> wanted, std::size_t room) {
    std::sort(wanted.begin(), wanted.end());
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const std::size_t share = room / (wanted.size() - i);
      if (wanted[i] > share) return share;
      room -= wanted[i];
    }
    return unlimited;
  }
  [[nodiscard]] static std::size_t sum_of(const std::vector<std::size_t>& bytes) {
    return std::accumulate(bytes.begin(), bytes.end(), std::size_t{0});
  }

  [[nodiscard]] static std::size_t index_of(track t) noexcept { return t.process - 1; }
  [[nodiscard]] std::size_t process_of(const record& r) const noexcept {
    return index_of(tracks_[static_cast<std::size_t>(r.row)].at);
  }
  [[nodiscard]] time_point last_time() const noexcept {
    time_point last{};
    for (std::size_t i = 0; i < size_; ++i) {
      const record& r = records_[i];
      last = std::max(last, r.what == kind::complete ? r.at + duration{r.payload} : r.at);
    }
    return last;
  }

  void keep(const record& r) noexcept {
    if (size_ >= limit_) {
      ++dropped_;
      return;
    }
    records_[size_++] = r;
  }

  void write_names(chrome_writer& w) const {
    for (std::size_t p = 0; p < processes_.size(); ++p)
      w.name_process(static_cast<std::uint32_t>(p) + 1, processes_[p]);
    for (const named_track& t : tracks_) w.name_thread(t.at, t.name);
  }
  void write_cut(chrome_writer& w, const record& r) const {
    w.instant(tracks_[static_cast<std::size_t>(r.row)].at, cut_text, r.at);
  }
  void end_span(chrome_writer& w, const open_spans::key_type& key, time_point at) const {
    const named_track& t = tracks_[static_cast<std::size_t>(std::get<0>(key))];
    w.end(t.at, t.name, labels_[static_cast<std::size_t>(std::get<1>(key))].name, at,
          std::get<2>(key));
  }
  void end_all(chrome_writer& w, const open_spans& open) const {
    if (open.empty()) return;
    const time_point last = last_time();
    for (const auto& key : open) end_span(w, key, last);
  }

  void write_one(chrome_writer& w, const record& r, open_spans& open) const {
    const named_track& t = tracks_[static_cast<std::size_t>(r.row)];
    const label& l = labels_[static_cast<std::size_t>(r.label)];
    const auto id = static_cast<std::uint64_t>(r.payload);
    switch (r.what) {
    case kind::complete:
      w.complete(t.at, l.name, r.at, duration{r.payload},
                 {{l.first, r.first}, {l.second, r.second}});
      break;
    case kind::instant:
      w.instant(t.at, l.name, r.at, {{l.first, r.first}, {l.second, r.second}});
      break;
    case kind::counter: w.counter(t.at, l.name, r.at, std::bit_cast<double>(r.payload)); break;
    case kind::begin:
      if (open.insert({r.row, r.label, id}).second)
        w.begin(t.at, t.name, l.name, r.at, id, {{l.first, r.first}, {l.second, r.second}});
      break;
    case kind::end:
      if (open.erase({r.row, r.label, id}) == 0) break;
      if (r.first == no_outcome)
        w.end(t.at, t.name, l.name, r.at, id);
      else
        w.end(t.at, t.name, l.name, r.at, id, {{"end", 0, labels_[r.first].name}});
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
