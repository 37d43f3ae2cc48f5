// SPDX-License-Identifier: Apache-2.0
#include "refusal.hpp"

#include <gsched/core/error.hpp>
#include <gsched/server/described_error.hpp>

#include <system_error>
#include <utility>

namespace gsched::abi {

gsched_code code_of(const std::error_code& e) noexcept {
  if (!e) return GSCHED_OK;
  if (e.category() != category()) return GSCHED_DEVICE_FAILED; // a device's, or of std::thread
  switch (static_cast<errc>(e.value())) {
  case errc::no_device: return GSCHED_NO_DEVICE;
  case errc::bad_graph:
  case errc::does_not_fit: return GSCHED_BAD_GRAPH;
  case errc::device_failed: return GSCHED_DEVICE_FAILED;
  case errc::io: return GSCHED_IO;
  case errc::out_of_memory: return GSCHED_OUT_OF_MEMORY;
  case errc::closed: return GSCHED_CLOSED;
  case errc::timed_out: return GSCHED_TIMED_OUT;
  case errc::job_threw: return GSCHED_INTERNAL;
  default: return GSCHED_BAD_ARGUMENT;
  }
}

refusal refusal_of_current_exception() {
  try {
    throw;
  } catch (const refusal& r) {
    return r;
  } catch (...) {
    described_error e = describe_current_exception();
    return {code_of(e.code), std::move(e.line)};
  }
}

} // namespace gsched::abi
