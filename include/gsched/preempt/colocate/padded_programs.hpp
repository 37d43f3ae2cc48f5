// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/id.hpp>
#include <gsched/job/program.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <vector>

namespace gsched {

/// The program that runs in place of a real-time program and carries best-effort work.
struct padded_program {
  const program* runs = nullptr; ///< as many operations as the real-time program, in its order
  std::uint32_t to = 0;          ///< the co-runner's next operation after it has ended
};

/// Real-time programs that were padded in advance, by real-time program, co-runner, and the
/// co-runner's next operation. The kernels of a graph are fixed at its creation, so the choice is
/// among these programs, and not made for each kernel.
///
/// Source   REEF, ACM TOCS 44(1), 2025, doi:10.1145/3768622, section 5: kernels are chosen when
///          each real-time kernel is launched.
/// Differs  programs are chosen, when a real-time program is dispatched.
/// Cost     find O(log n), without allocation; add O(n): set-up.
/// Threads  one owner; no locking.
class padded_programs {
public:
  /// Replaces an earlier program for the same three keys.
  void add(program_id real_time, program_id corunner, std::uint32_t from, const padded_program& p) {
    const entry e{{real_time, corunner, from}, p};
    const auto at = std::lower_bound(all_.begin(), all_.end(), e, before);
    if (at != all_.end() && at->of == e.of)
      *at = e;
    else
      all_.insert(at, e);
  }

  /// The padded program; null if there is none.
  [[nodiscard]] const padded_program* find(program_id real_time, program_id corunner,
                                           std::uint32_t from) const noexcept {
    const entry e{{real_time, corunner, from}, {}};
    const auto at = std::lower_bound(all_.begin(), all_.end(), e, before);
    return at != all_.end() && at->of == e.of ? &at->is : nullptr;
  }
  [[nodiscard]] std::size_t size() const noexcept { return all_.size(); }

private:
  struct entry {
    std::tuple<program_id, program_id, std::uint32_t> of;
    padded_program is;
  };
  [[nodiscard]] static bool before(const entry& a, const entry& b) noexcept { return a.of < b.of; }

  std::vector<entry> all_; ///< by `of`
};

} // namespace gsched
