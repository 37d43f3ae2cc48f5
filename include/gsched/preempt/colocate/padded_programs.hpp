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

/// What runs in place of a real-time program when a best-effort one is carried by it.
struct padded_program {
  const program* runs = nullptr; ///< as many operations as the real-time program, of its order
  std::uint32_t to = 0;          ///< the guest's next operation once it has ended
};

/// Real-time programs padded ahead of time: by real-time program, guest, and where that stands. A
/// graph has its kernels fixed when it is made, so which guest goes with it from where is chosen
/// among these, and not kernel by kernel.
///
/// Source   REEF, ACM TOCS 44(1), 2025, doi:10.1145/3768622, section 5: kernels are chosen when
///          each real-time kernel is launched.
/// Differs  programs are chosen, when a real-time program is.
/// Cost     find O(log n), and no allocation; add O(n): set-up.
/// Threads  one owner; no locking.
class padded_programs {
public:
  /// Takes the place of an earlier one of the same three.
  void add(program_id real_time, program_id guest, std::uint32_t from, const padded_program& p) {
    const entry e{{real_time, guest, from}, p};
    const auto at = std::lower_bound(all_.begin(), all_.end(), e, before);
    if (at != all_.end() && at->of == e.of)
      *at = e;
    else
      all_.insert(at, e);
  }

  /// Null if there is none.
  [[nodiscard]] const padded_program* find(program_id real_time, program_id guest,
                                           std::uint32_t from) const noexcept {
    const entry e{{real_time, guest, from}, {}};
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
