// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/trace/json_text.hpp>

#include <cassert>
#include <cstdint>
#include <initializer_list>
#include <ostream>
#include <string_view>

namespace gsched::trace {

/// A row of a timeline. The format calls it a thread of a process.
struct track {
  std::uint32_t process = 1;
  std::uint32_t thread = 1;
  bool operator==(const track&) const noexcept = default;
};

/// An argument of an event: a number, or a text if that is not empty. Without a key it is not
/// written.
struct argument {
  std::string_view key{};
  std::uint64_t value = 0;
  std::string_view text{};
};

/// Writes each event at once, in the JSON that ui.perfetto.dev and chrome://tracing open.
///
/// Source   "Trace Event Format", Google, 2016: phases X, b, e, C, i and M.
/// Order    events may be written in any order of time; the viewer sorts them.
/// Units    microseconds with three decimals, which is exact; equal calls give equal bytes.
/// Errors   the caller checks the stream. Bytes of names that are not UTF-8 become question marks.
/// Threads  one owner; no locking.
class chrome_writer {
public:
  using arguments = std::initializer_list<argument>;

  explicit chrome_writer(std::ostream& out) : out_(out) {
    out_ << "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[";
  }
  chrome_writer(const chrome_writer&) = delete;
  chrome_writer& operator=(const chrome_writer&) = delete;
  ~chrome_writer() { finish(); }

  void name_process(std::uint32_t process, std::string_view name) {
    open("process_name", 'M');
    out_ << ",\"pid\":" << process << ",\"args\":{\"name\":";
    put_text(out_, name);
    out_ << "}}";
  }

  /// The viewer sorts the tracks of a process by thread number.
  void name_thread(track t, std::string_view name) {
    open("thread_name", 'M');
    put(t);
    out_ << ",\"args\":{\"name\":";
    put_text(out_, name);
    out_ << "}}";
    open("thread_sort_index", 'M');
    put(t);
    out_ << ",\"args\":{\"sort_index\":" << t.thread << "}}";
  }

  /// A slice that occupies its track from `start` for `length`. Slices of a track do not overlap.
  void complete(track t, std::string_view name, time_point start, duration length,
                arguments args = {}) {
    assert(length >= duration::zero());
    open(name, 'X');
    put(t);
    put_time(start);
    out_ << ",\"dur\":";
    put_us(out_, length);
    put(args);
    out_ << '}';
  }

  /// A span, which may overlap others of its track; id is unique in the process and category. Each
  /// begin needs one end of the same name.
  void begin(track t, std::string_view category, std::string_view name, time_point at,
             std::uint64_t id, arguments args = {}) {
    put_span(t, category, name, at, id, 'b', args);
  }
  void end(track t, std::string_view category, std::string_view name, time_point at,
           std::uint64_t id, arguments args = {}) {
    put_span(t, category, name, at, id, 'e', args);
  }

  /// A value that is valid until the next one of its name in its process.
  void counter(track t, std::string_view name, time_point at, double value) {
    open(name, 'C');
    put(t);
    put_time(at);
    out_ << ",\"args\":{\"value\":";
    put_number(out_, value);
    out_ << "}}";
  }

  void instant(track t, std::string_view name, time_point at, arguments args = {}) {
    open(name, 'i');
    put(t);
    put_time(at);
    out_ << ",\"s\":\"t\"";
    put(args);
    out_ << '}';
  }

  /// Closes the document; events after it are a bug (asserted). The destructor calls it.
  void finish(std::uint64_t dropped = 0) {
    if (finished_) return;
    finished_ = true;
    out_ << "\n],\"otherData\":{\"dropped\":\"" << dropped << "\"}}\n";
  }

private:
  void open(std::string_view name, char phase) {
    assert(!finished_);
    out_ << (first_ ? "\n{\"name\":" : ",\n{\"name\":");
    first_ = false;
    put_text(out_, name);
    out_ << ",\"ph\":\"" << phase << '"';
  }
  void put(track t) { out_ << ",\"pid\":" << t.process << ",\"tid\":" << t.thread; }
  void put_time(time_point at) {
    out_ << ",\"ts\":";
    put_us(out_, at.time_since_epoch());
  }
  void put(arguments args) {
    bool any = false;
    for (const argument& a : args) {
      if (a.key.empty()) continue;
      out_ << (any ? "," : ",\"args\":{");
      put_text(out_, a.key);
      out_ << ':';
      if (a.text.empty())
        out_ << a.value;
      else
        put_text(out_, a.text);
      any = true;
    }
    if (any) out_ << '}';
  }
  /// Some viewers match spans over all processes, so the written id holds the process.
  void put_span(track t, std::string_view category, std::string_view name, time_point at,
                std::uint64_t id, char phase, arguments args) {
    open(name, phase);
    out_ << ",\"cat\":";
    put_text(out_, category);
    out_ << ",\"id\":\"" << t.process << '.' << id << '"';
    put(t);
    put_time(at);
    put(args);
    out_ << '}';
  }

  std::ostream& out_;
  bool first_ = true;
  bool finished_ = false;
};

} // namespace gsched::trace
