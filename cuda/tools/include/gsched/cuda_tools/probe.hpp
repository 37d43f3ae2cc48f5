// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/launch.hpp>
#include <gsched/core/quantity.hpp>

#include <cuda.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gsched::cuda {

/// The resource that a probe stresses.
enum class probe_kind : std::uint8_t {
  sleep,        ///< nothing but its place on an SM: registers, shared memory, threads
  copy,         ///< L2 and DRAM: copies an array to another one
  read,         ///< L2 (and DRAM beyond its size): reads an array again and again
  write,        ///< L2 and DRAM: writes an array again and again
  atomics,      ///< atomic units of L2
  chase,        ///< latency of L2 and DRAM: dependent loads
  l1,           ///< L1: each SM reads an array of its own again and again
  shared,       ///< banks of shared memory
  fp32,         ///< instruction issue, FMA pipe
  fp64,         ///< FP64 pipe
  fp16,         ///< fp16 products
  integer,      ///< ALU pipe
  sfu,          ///< special functions, XU pipe
  tensor,       ///< tensor pipe
  instructions, ///< instruction cache: a loop body of 16,384 instructions
  upload,       ///< copy engine and bus, from the host; no kernel
  download,     ///< copy engine and bus, to the host; no kernel
};

/// A kind's name in files and options, and what its level means.
struct probe_description {
  probe_kind kind;
  std::string_view name;
  std::string_view stresses;
  std::string_view level; ///< unit or meaning of the level
  std::uint32_t usual_level;
  std::uint32_t most; ///< levels are 1 to this
  std::uint32_t usual_threads;
};
[[nodiscard]] std::span<const probe_description> probe_kinds() noexcept;
/// Errors   unknown_name, with the known ones.
[[nodiscard]] const probe_description& probe_kind_of(std::string_view name);

/// A probe: what it stresses, how much, and its launch.
struct probe_options {
  probe_kind kind = probe_kind::fp32;
  std::uint32_t level = 0;   ///< 0: the kind's usual one
  std::uint32_t blocks = 0;  ///< 0: one on each SM that it may use
  std::uint32_t threads = 0; ///< of a block; 0: the kind's usual number
  /// Of a thread of `sleep`: 16, 24, 32, 64, 96, 128, 192 or 255; 0: as compiled.
  std::uint32_t registers = 0;
  std::uint32_t shared_bytes = 0; ///< dynamic shared memory of a block, beyond what the kind needs

  /// As in files: probe_KIND_LEVEL, with what differs from the usual.
  [[nodiscard]] std::string name() const;
};

/// On how many of so many idle SMs its blocks run: the hardware places them one by one on each. 0
/// for copies with the host.
[[nodiscard]] std::uint32_t sms_of_blocks(const probe_options& how, sm_count sms) noexcept;
/// Errors   bad_option for a level, a number of threads or registers that the kind does not have,
///          and for a shape of copies with the host, which have no blocks.
void check_probe(const probe_options& how);
/// A probe as in options. An empty part, or 0, is the usual one.
inline constexpr const char* probe_form =
    "KIND[:LEVEL[:BLOCKS[:THREADS]]][:registers=N][:shared=BYTES]";
/// A probe in probe_form.
/// Errors   unknown_name, with the known kinds; bad_option for a part that is out of range.
[[nodiscard]] probe_options parse_probe(std::string_view text);

/// A kernel that uses one resource of the GPU at a constant rate, until it is stopped.
///
/// Source   the microbenchmarks of Elvinger et al., SoCC 2025, section 4,
///          doi:10.1145/3772052.3772270.
/// Differs  a probe is persistent: a word in device memory stops it, so it covers its neighbour's
///          whole run. It ends by itself after `limit`. It runs as a graph, for any number of SMs,
///          and records the SM of each of its blocks. Copies between host and GPU are submitted one
///          by one, by a thread of the probe.
/// Errors   bad_option for a level, a block or a memory size that is out of range; too_small if no
///          block fits on an SM; device_failed with CUDA's message.
/// Cost     construction allocates what the kind reads and writes.
/// Threads  one at a time.
class probe {
public:
  /// It runs on the `sms` SMs of the green context `place`; null: on all SMs.
  probe(const probe_options& how, sm_count sms, CUcontext place = nullptr);
  ~probe();
  probe(probe&&) noexcept;
  probe& operator=(probe&&) noexcept;

  /// A graph of one kernel, or of copies, that ends after so many rounds of its work. The probe
  /// owns it.
  [[nodiscard]] CUgraph finite(std::uint64_t rounds);
  /// The rounds that take about that long on the idle GPU. Measured at the first call.
  [[nodiscard]] std::uint64_t rounds_for(double us);

  /// Launches the probe on the stream, to run until stop() or for `limit_us`.
  void start(CUstream stream, double limit_us);
  /// Waits until a block runs; false if none did so within `limit_us`.
  [[nodiscard]] bool wait_running(double limit_us) const;
  /// Waits until it ends by itself.
  void wait();
  /// Stops it, and waits for its end.
  void stop();

  /// What it did since start(); valid after stop().
  struct result {
    double rounds = 0;     ///< of all blocks
    double us = 0;         ///< between the first block's start and the last one's end
    std::uint32_t sms = 0; ///< on which a block ran
    double clock_mhz = 0;  ///< of the SMs, in the mean
    bool stopped = false;  ///< false: it ended by itself
  };
  [[nodiscard]] result last() const;
  /// The numbers of the SMs on which its blocks ran last.
  [[nodiscard]] std::vector<std::uint32_t> sms_used() const;

  [[nodiscard]] const launch_shape& launch() const noexcept;
  [[nodiscard]] std::string name() const;

private:
  struct state;
  std::unique_ptr<state> state_;
};

} // namespace gsched::cuda
