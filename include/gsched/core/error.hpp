// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <source_location>
#include <string>
#include <system_error>
#include <type_traits>

namespace gsched {

#ifdef __cpp_lib_source_location
using source_location = std::source_location;
#else
/// Stands in for std::source_location: clang 14 provides the built-ins below, but not the one that
/// libstdc++'s type needs.
class source_location {
public:
  [[nodiscard]] static constexpr source_location
  current(const char* file = __builtin_FILE(), const char* function = __builtin_FUNCTION(),
          unsigned line = __builtin_LINE()) noexcept {
    source_location here;
    here.file_ = file;
    here.function_ = function;
    here.line_ = line;
    return here;
  }
  [[nodiscard]] constexpr const char* file_name() const noexcept { return file_; }
  [[nodiscard]] constexpr const char* function_name() const noexcept { return function_; }
  [[nodiscard]] constexpr unsigned line() const noexcept { return line_; }

private:
  const char* file_ = "";
  const char* function_ = "";
  unsigned line_ = 0;
};
#endif

/// The reasons for which gsched reports an error. Hot paths return these codes and do not throw.
enum class errc {
  bad_profile = 1,  ///< a profile or another input file breaks its format
  bad_trace,        ///< an arrival trace breaks its format
  does_not_fit,     ///< a block of the kernel fits on no SM of the device
  dependency_cycle, ///< an operation waits for itself or for a later one
  unknown_name,     ///< a policy, device, model or arrival law that does not exist
  bad_option,       ///< a value outside its range
  too_small,        ///< a ring, pool or queue too small for what it was asked to hold
  io,               ///< a file could not be read or written
  device_failed,    ///< the device reported an error
  job_threw,        ///< a job's body ended with an exception
  bad_handle,       ///< a stream or an event that the job does not have
  no_device,        ///< no GPU, no driver, or a driver that is too old
  bad_graph,        ///< a captured graph with a node that cannot be scheduled
  not_reached,      ///< a job that this job had to follow did not finish, so this job did not start
  out_of_memory,    ///< GPU memory or pinned memory is exhausted; the call changed nothing
  closed,           ///< the server takes no more requests
  timed_out,        ///< what was waited for has not come in time
};

[[nodiscard]] inline const std::error_category& category() noexcept {
  struct gsched_category final : std::error_category {
    const char* name() const noexcept override { return "gsched"; }
    std::string message(int code) const override {
      switch (static_cast<errc>(code)) {
      case errc::bad_profile: return "bad profile";
      case errc::bad_trace: return "bad trace";
      case errc::does_not_fit: return "kernel fits on no SM";
      case errc::dependency_cycle: return "dependency cycle";
      case errc::unknown_name: return "unknown name";
      case errc::bad_option: return "bad option";
      case errc::too_small: return "too small";
      case errc::io: return "input or output";
      case errc::device_failed: return "device failed";
      case errc::job_threw: return "job body threw";
      case errc::bad_handle: return "bad handle";
      case errc::no_device: return "no device";
      case errc::bad_graph: return "bad graph";
      case errc::not_reached: return "not reached";
      case errc::out_of_memory: return "out of memory";
      case errc::closed: return "closed";
      case errc::timed_out: return "timed out";
      }
      return "unknown error";
    }
  };
  static const gsched_category instance;
  return instance;
}

[[nodiscard]] inline std::error_code make_error_code(errc e) noexcept {
  return {static_cast<int>(e), category()};
}

/// The exception type that set-up code and device calls throw. what() is one line that says what is
/// wrong, where in the input, and what was expected; where() is the source line that threw.
class error : public std::system_error {
public:
  error(errc code, const std::string& what_where_expected,
        source_location at = source_location::current())
      : std::system_error(make_error_code(code)), line_(what_where_expected), at_(at) {}

  [[nodiscard]] const char* what() const noexcept override { return line_.c_str(); }
  [[nodiscard]] const source_location& where() const noexcept { return at_; }

private:
  std::string line_;
  source_location at_;
};

} // namespace gsched

template <>
struct std::is_error_code_enum<gsched::errc> : std::true_type {};
