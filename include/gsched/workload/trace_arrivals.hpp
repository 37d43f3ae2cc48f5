// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/id.hpp>
#include <gsched/core/time.hpp>
#include <gsched/workload/arrival.hpp>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <istream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace gsched {

/// Reads requests from a CSV trace, one a line: `time_us,model[,client]`. The times do not fall.
/// The reader skips empty lines and a header line that starts with `time_us`. Requests without a
/// client get clients round robin. The reader reads one line at a time, so a file may exceed
/// memory.
///
/// Errors   one line each, "file:line: what, expected": bad_trace; unknown_name for a model that is
///          not in the list; io for a file that cannot be read.
/// Cost     next O(line + models).
/// Threads  one owner.
class trace_arrivals {
public:
  static constexpr std::size_t max_line = 1024;

  /// `name` names the stream in errors. `models` are the known names; `clients` is the number of
  /// clients.
  trace_arrivals(std::unique_ptr<std::istream> in, std::string name,
                 std::vector<std::string> models, std::uint32_t clients)
      : in_(std::move(in)), name_(std::move(name)), models_(std::move(models)), clients_(clients) {
    if (clients_ == 0) throw error(errc::bad_option, name_ + ": no clients, expected at least 1");
  }
  trace_arrivals(const std::string& path, std::vector<std::string> models, std::uint32_t clients)
      : trace_arrivals(std::make_unique<std::ifstream>(path, std::ios::binary), path,
                       std::move(models), clients) {
    std::error_code ignored;
    if (std::filesystem::is_directory(path, ignored))
      throw error(errc::io, path + ": is a directory, expected a trace file");
    if (!*in_) throw error(errc::io, path + ": cannot be opened, expected a trace file");
  }

  [[nodiscard]] std::optional<arrival> next() {
    while (!ended_) {
      ended_ = !read_line(); // later appends to the file are not read
      if (line_.empty()) continue;
      const std::vector<std::string_view> fields = split();
      if (!begun_ && fields[0] == "time_us") {
        begun_ = true;
        continue;
      }
      begun_ = true;
      return parse(fields);
    }
    return std::nullopt;
  }
  void on_reply(client_id, time_point) noexcept {}

private:
  [[noreturn]] void refuse(const std::string& what, errc code = errc::bad_trace) const {
    throw error(code, name_ + ":" + std::to_string(number_) + ": " + what);
  }

  /// Reads the next line into line_, without \n or \r\n. Returns false at the end of the file.
  bool read_line() try {
    line_.clear();
    ++number_;
    auto* const buffer = in_->rdbuf();
    using traits = std::istream::traits_type;
    bool any = false;
    for (auto c = buffer->sbumpc(); !traits::eq_int_type(c, traits::eof()); c = buffer->sbumpc()) {
      any = true;
      if (traits::to_char_type(c) == '\n') break;
      if (line_.size() == max_line)
        refuse("a longer line than " + std::to_string(max_line) + " bytes, expected " + format);
      line_.push_back(traits::to_char_type(c));
    }
    if (!line_.empty() && line_.back() == '\r') line_.pop_back();
    return any;
  } catch (const std::ios_base::failure&) {
    refuse("cannot be read, expected a file", errc::io);
  }

  std::vector<std::string_view> split() const {
    std::vector<std::string_view> fields;
    std::string_view rest = line_;
    for (std::size_t comma = rest.find(','); comma != rest.npos; comma = rest.find(',')) {
      fields.push_back(rest.substr(0, comma));
      rest.remove_prefix(comma + 1);
    }
    fields.push_back(rest);
    return fields;
  }

  arrival parse(const std::vector<std::string_view>& fields) {
    if (fields.size() < 2 || fields.size() > 3)
      refuse(std::to_string(fields.size()) + " fields, expected " + format);
    arrival r;
    double us = 0;
    if (!number(fields[0], us) || !(us >= 0 && us <= 9e15))
      refuse("time " + quoted(fields[0]) + ", expected microseconds from 0");
    r.at = time_point{from_us(us)};
    if (r.at < last_)
      refuse("time " + quoted(fields[0]) + " is before the line above, expected times in order");
    last_ = r.at;
    const auto model = std::find(models_.begin(), models_.end(), fields[1]);
    if (model == models_.end())
      refuse("model " + quoted(fields[1]) + ", expected " + known(), errc::unknown_name);
    r.model = static_cast<std::uint32_t>(model - models_.begin());
    std::uint32_t client = 0;
    if (fields.size() == 3) {
      if (!number(fields[2], client) || client >= clients_)
        refuse("client " + quoted(fields[2]) + ", expected 0 to " + std::to_string(clients_ - 1));
    } else {
      client = next_client_;
      next_client_ = next_client_ + 1 == clients_ ? 0 : next_client_ + 1;
    }
    r.client = client_id{client};
    return r;
  }

  template <class T>
  static bool number(std::string_view text, T& value) noexcept {
    const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
    return fault == std::errc{} && end == text.data() + text.size();
  }

  /// Quotes a field for an error: at most 40 bytes, control characters replaced.
  static std::string quoted(std::string_view text) {
    std::string s(text.substr(0, 40));
    for (char& c : s)
      if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
    return '"' + s + (text.size() > 40 ? "...\"" : "\"");
  }
  std::string known() const {
    std::string all;
    for (const std::string& m : models_) all += (all.empty() ? "" : ", ") + m;
    return models_.empty()       ? "a model, but there is none"
           : models_.size() == 1 ? all
                                 : "one of " + all;
  }

  static constexpr const char* format = "time_us,model[,client]";

  std::unique_ptr<std::istream> in_;
  std::string name_;
  std::vector<std::string> models_;
  std::uint32_t clients_;
  std::uint32_t next_client_ = 0; ///< round robin
  std::string line_;
  std::size_t number_ = 0; ///< of the line
  bool begun_ = false;     ///< the header, if any, was read
  bool ended_ = false;
  time_point last_{};
};

} // namespace gsched
