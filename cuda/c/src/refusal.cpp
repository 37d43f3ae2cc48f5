// SPDX-License-Identifier: Apache-2.0
#include "refusal.hpp"

#include <gsched/core/error.hpp>

#include <algorithm>
#include <new>
#include <system_error>

namespace gsched::abi {

namespace {

[[nodiscard]] gsched_code code_of(const std::error_code& e) {
  if (e == errc::no_device) return GSCHED_NO_DEVICE;
  if (e == errc::bad_graph || e == errc::does_not_fit) return GSCHED_BAD_GRAPH;
  if (e == errc::device_failed) return GSCHED_DEVICE_FAILED;
  if (e == errc::io) return GSCHED_IO;
  if (e == errc::out_of_memory) return GSCHED_OUT_OF_MEMORY;
  return GSCHED_BAD_ARGUMENT;
}

/// Errors are promised to be one line.
[[nodiscard]] std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

} // namespace

refusal refusal_of_current_exception() {
  try {
    throw;
  } catch (const refusal& r) {
    return r;
  } catch (const error& e) {
    return {code_of(e.code()), one_line(e.what())};
  } catch (const std::bad_alloc&) {
    return {GSCHED_OUT_OF_MEMORY, "out of host memory"};
  } catch (const std::system_error& e) { // a device's code, or of the standard library's threads
    return {GSCHED_DEVICE_FAILED, one_line(e.what())};
  } catch (const std::exception& e) {
    return {GSCHED_INTERNAL, one_line(e.what())};
  } catch (...) {
    return {GSCHED_INTERNAL, "an unknown exception"};
  }
}

} // namespace gsched::abi
