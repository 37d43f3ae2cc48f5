// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/preempt/colocate/candidate.hpp>
#include <gsched/preempt/colocate/options.hpp>
#include <gsched/sim/padded.hpp>

#include <cstdint>
#include <filesystem>
#include <istream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace padding {

/// A kernel of a pair.
struct kernel_facts {
  std::string name;
  gsched::kernel_variant variant;
  gsched::sim::padded_work work; ///< all of its blocks
};

/// Times as measured on a GPU, in microseconds: of the real-time part, and from the start of the
/// kernel to that of the next one in a graph.
struct pair_times {
  double part_plain = 0;
  double part_padded = 0;
  double whole_plain = 0;
  double whole_padded = 0;
};

/// Two kernels that run together.
struct pair_facts {
  kernel_facts real_time;
  kernel_facts corunner;
  std::optional<std::uint32_t> blocks; ///< of the co-runner; unset: as many as the rules admit
  std::optional<std::uint32_t> level;  ///< of the padded kernel; unset: the lower of the two
  std::optional<pair_times> measured;
};

/// Reads pair facts: a CSV file with a header, a row a pair, as gsched.gpu.padding --facts writes
/// it for a GPU. Its columns, in any order:
///
///   rt_function, rt_kernel_ns, rt_block_ns, rt_registers, rt_shared_bytes, rt_threads, rt_blocks
///     the real-time kernel: its name, the time of all of its blocks and of one, alone on the
///     device; registers of a thread, bytes of shared memory and threads of a block; blocks
///   rt_variant, rt_shape
///     more of its name; may be missing, as may what follows
///   rt_level
///     blocks of it that an SM holds; missing: computed
///   rt_bytes
///     that it moves to and from memory: with the time, its share of the memory's throughput;
///     missing: estimated from how it scales
///   be_...
///     the same of the co-runner
///   be_padded_blocks, level
///     blocks of the co-runner beside the real-time kernel, and blocks of both that an SM holds
///   rt_plain_us, rt_padded_us, whole_plain_us, whole_padded_us
///     measured: the real-time part, and from the kernel's start to the next one's
///
/// Errors   gsched::error, one line: those of gsched::csv_table; bad_option and does_not_fit for a
///          kernel that check() refuses.
[[nodiscard]] std::vector<pair_facts> read_facts(const std::filesystem::path& file,
                                                 const gsched::sim::preset& on);
/// `name` stands for the text in errors.
[[nodiscard]] std::vector<pair_facts> read_facts(std::unique_ptr<std::istream> text,
                                                 const std::string& name,
                                                 const gsched::sim::preset& on);

/// A pair, predicted; and measured where the file says.
struct pair_result {
  std::string real_time;
  std::string corunner;
  std::uint32_t blocks = 0; ///< 0: the rules admit none, and nothing is predicted
  std::uint32_t level = 0;
  gsched::sim::padded_times predicted;
  std::optional<pair_times> measured;
};
/// Errors   does_not_fit for two kernels that no proxy can run.
[[nodiscard]] std::vector<pair_result> predict_pairs(const std::vector<pair_facts>& pairs,
                                                     const gsched::pad_options& o,
                                                     const gsched::sim::preset& on);

} // namespace padding
