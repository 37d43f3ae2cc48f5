// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/pad/candidate.hpp>
#include <gsched/pad/options.hpp>
#include <gsched/sim/padded.hpp>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace padding {

/// A kernel of a facts file.
struct kernel_facts {
  std::string name;
  gsched::kernel_variant variant;
  gsched::sim::padded_work work; ///< all of its blocks
};

/// Times of a pair as measured on a GPU.
struct pair_times {
  double alone_us = 0;      ///< the host by itself
  double together_us = 0;   ///< the padded kernel
  double one_by_one_us = 0; ///< the host, then the guest's blocks
};

/// Two kernels of the file, to be run together.
struct pair_facts {
  std::size_t host = 0;
  std::size_t guest = 0;
  std::optional<std::uint32_t> guest_blocks; ///< unset: as many as the rules let in
  std::optional<std::uint32_t> level;        ///< unset: as a plan would choose
  std::optional<pair_times> measured;
};

struct facts {
  std::string device;
  std::vector<kernel_facts> kernels;
  std::vector<pair_facts> pairs;
};

/// The pair facts format, version 1: one JSON object.
///
///   {"device": "NVIDIA H200",
///    "kernels": [{"name": "gemm", "kernel_us": 41.5, "block_us": 39.0, "blocks": 128,
///                 "threads_per_block": 256, "registers_per_thread": 128, "shared_bytes": 32768,
///                 "level": 2, "memory": 0.15, "us_by_sms": {"66": 80.1}}],
///    "pairs": [{"host": "gemm", "guest": "copy", "guest_blocks": 136, "level": 2,
///               "measured": {"alone_us": 41.5, "together_us": 47.0, "one_by_one_us": 60.2}}]}
///
/// Of a kernel: the time of all its blocks alone and of one block, what a block takes, and how many
/// an SM holds; that is worked out if `level` is missing. `memory` is the share of the device's
/// memory throughput that it takes alone, 0 to 1; it, or times on fewer SMs, tell the simulator
/// what bounds the kernel. Both may be missing. Without `pairs`, every two kernels are a pair, in
/// either role. Of a pair only the names are needed. Other fields are passed over.
///
/// Errors   gsched::error, one line: io; bad_profile for the format; bad_option and does_not_fit
///          for a kernel that check() refuses.
[[nodiscard]] facts read_facts(const std::filesystem::path& file, const gsched::sim::preset& on);

/// A pair, predicted; and measured where the file says.
struct pair_result {
  std::string host;
  std::string guest;
  std::uint32_t guest_blocks = 0; ///< 0: the rules let none in, and nothing is predicted
  std::uint32_t level = 0;
  gsched::sim::padded_times predicted;
  std::optional<pair_times> measured;
};
/// Errors   does_not_fit for two kernels that no proxy can run.
[[nodiscard]] std::vector<pair_result> predict_pairs(const facts& f, const gsched::pad_options& o,
                                                     const gsched::sim::preset& on);

} // namespace padding
