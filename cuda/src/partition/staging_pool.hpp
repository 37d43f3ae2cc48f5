// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace gsched::cuda {

/// Pinned memory for batches whose requests are in pageable memory, in blocks of one size. Blocks
/// may outlive the pool.
///
/// Threads  any.
class staging_pool {
public:
  explicit staging_pool(std::vector<int> gpus);

  /// Makes blocks, so that `count` of at least so many bytes are there, taken ones included.
  /// Errors   out_of_memory, device_failed.
  void reserve(std::size_t count, std::uint64_t bytes);
  /// A block of at least so many bytes, for the caller alone until its last owner releases it.
  /// Errors   as reserve, if no block is free.
  [[nodiscard]] std::shared_ptr<std::byte> take(std::uint64_t bytes);

private:
  struct state {
    std::mutex guard;
    std::vector<int> gpus;
    std::uint64_t bytes = 0;      ///< of a block
    std::vector<std::byte*> free; ///< of that size
    std::size_t taken = 0;        ///< of that size

    ~state();
    [[nodiscard]] std::byte* make() const;
    void destroy(std::byte* block) const noexcept;
    void grow(std::uint64_t to);
  };
  std::shared_ptr<state> state_;
};

} // namespace gsched::cuda
