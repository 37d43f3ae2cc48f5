// SPDX-License-Identifier: Apache-2.0
#include "readers.hpp"

#include <gsched/io/latency_csv.hpp>

#include <memory>

/// Any bytes either are refused in one line, or are a table in which no row is undercut.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto text =
      std::make_unique<std::istringstream>(std::string(reinterpret_cast<const char*>(data), size));
  try {
    const std::vector<gsched::latency_row> rows = gsched::read_latency_rows(
        gsched::csv_table(std::move(text), "t", {"model", "batch", "sms", "latency_us"}));
    const gsched::latency_table t(rows, "t");
    for (const gsched::latency_row& r : rows)
      gsched::fuzz::require(t.latency(*t.find(r.model), r.batch, r.sms) >= r.latency);
    static_cast<void>(t.doubts());
  } catch (const gsched::error& e) {
    gsched::fuzz::require_one_line(e, "t:");
  }
  return 0;
}
