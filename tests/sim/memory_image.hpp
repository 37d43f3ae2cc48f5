// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/job/program.hpp>
#include <gsched/sim/observer.hpp>

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace gsched::testing {

/// The device memory of a program: two rows of words. Each block of an operation adds two words of
/// one row to its own word of the other, and the next operation does the reverse; so a block that
/// is lost, run twice, or run out of order is detected.
class memory_image {
public:
  explicit memory_image(std::size_t words) {
    for (std::vector<std::uint64_t>& row : rows_)
      for (std::size_t i = 0; i < words; ++i) row.push_back(mixed(row.size() * 977 + i, 1));
  }

  /// Blocks [first, first + n) of an operation run.
  void run(std::uint32_t operation, std::uint64_t first, std::uint64_t n) noexcept {
    std::vector<std::uint64_t>& to = rows_[operation % 2];
    const std::vector<std::uint64_t>& from = rows_[1 - operation % 2];
    const std::size_t words = to.size();
    for (std::uint64_t b = first; b < first + n; ++b)
      to[b % words] =
          mixed(to[b % words] + from[(b * 7 + operation) % words], from[(b + 3) % words]);
  }

  [[nodiscard]] std::size_t words() const noexcept { return rows_[0].size(); }
  bool operator==(const memory_image&) const = default;

private:
  static std::uint64_t mixed(std::uint64_t a, std::uint64_t b) noexcept {
    a = (a ^ b * 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u;
    return a ^ a >> 29;
  }

  std::vector<std::uint64_t> rows_[2];
};

/// The memory of several programs, by segment::owner, as modified by a simulated device. Operations
/// are identified by their kernel number, which is their index in the program.
struct image_writer {
  std::vector<memory_image> images;
  std::vector<time_point> times; ///< times at which something started, ended or ran

  static void blocks(void* self, time_point at, const sim::operation_mark& m, std::uint64_t first,
                     std::uint64_t n) noexcept {
    auto& me = *static_cast<image_writer*>(self);
    me.images[index(m.owner)].run(index(m.work->kernel), first, n);
    me.times.push_back(at);
  }
  static void started(void* self, time_point at, const sim::operation_mark&) noexcept {
    static_cast<image_writer*>(self)->times.push_back(at);
  }
  static void ended(void* self, time_point at, const sim::operation_mark& m) noexcept {
    auto& me = *static_cast<image_writer*>(self);
    if (m.work->kind != operation_kind::kernel) // as one block that writes all words
      me.images[index(m.owner)].run(index(m.work->kernel), 0, me.images[index(m.owner)].words());
    me.times.push_back(at);
  }
  sim::observer hook() { return {this, started, ended, nullptr, blocks}; }
};

/// The result of an undisturbed run of a program.
[[nodiscard]] inline memory_image run_alone(std::span<const operation> program,
                                            memory_image memory) {
  for (const operation& op : program)
    memory.run(index(op.kernel), 0,
               op.kind == operation_kind::kernel ? op.launch.blocks() : memory.words());
  return memory;
}

/// Kernels of all three preemptibilities, of few and many waves, with a copy or a memset in
/// between; or preemptible kernels only.
[[nodiscard]] inline std::vector<operation> random_program(std::mt19937_64& random,
                                                           std::size_t size, bool all_leave) {
  const auto pick = [&](std::uint32_t least, std::uint32_t most) {
    return least + static_cast<std::uint32_t>(random() % (most - least + 1));
  };
  std::vector<operation> ops(size);
  for (std::size_t i = 0; i < size; ++i) {
    operation& op = ops[i];
    op.kernel = kernel_id{static_cast<std::uint32_t>(i)};
    op.launch.grid = {pick(1, pick(0, 2) == 0 ? 300 : 20), 1, 1};
    op.launch.block = {pick(1, 16) * 32, 1, 1};
    op.launch.registers_per_thread = 32;
    op.launch.cluster_blocks = pick(0, 7) == 0 ? 2 : 1;
    op.launch.grid.x += op.launch.grid.x % op.launch.cluster_blocks;
    op.expected = duration{pick(500, 30000)};
    op.preemptible = static_cast<preemptibility>(pick(all_leave ? 1 : 0, 2));
    op.checkpoint = duration{pick(0, 3000)};
    if (all_leave || pick(0, 5) != 0) continue;
    op.preemptible = preemptibility::never;
    op.kind = pick(0, 1) == 0 ? operation_kind::memcpy : operation_kind::memset;
    op.direction = static_cast<copy_direction>(pick(0, 2));
    op.bytes = byte_count{pick(1, 100000)};
  }
  return ops;
}

} // namespace gsched::testing
