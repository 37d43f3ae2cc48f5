// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/cuda/call.hpp>
#include <gsched/cuda/error.hpp>
#include <gsched/preempt/access.hpp>

#include <cuda_runtime_api.h>

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace gsched::cuda {

/// Where traced pointers write what is accessed through them. A record is one word: whether it is a
/// write in bit 63, the address in the 52 bits below it, and bytes less one in the last 11. So
/// words in rising order are reads, then writes, each by address.
///
/// Units    plain words, as host and device share it; one fits on every GPU, whose addresses are of
///          at most 49 bits.
struct trace_sink {
  static constexpr unsigned size_bits = 11;
  static constexpr unsigned address_bits = 52;
  static constexpr unsigned most_bytes = 1u << size_bits; ///< of one record
  static constexpr std::uint64_t write_bit = std::uint64_t{1} << 63;

  std::uint64_t* records = nullptr;
  unsigned long long capacity = 0;
  unsigned long long made = 0;    ///< records, also those that had no room
  unsigned long long refused = 0; ///< accesses of addresses beyond 52 bits

  [[nodiscard]] __host__ __device__ static constexpr std::uint64_t
  first_of(std::uint64_t record) noexcept {
    return (record & ~write_bit) >> size_bits;
  }
  [[nodiscard]] __host__ __device__ static constexpr std::uint64_t
  last_of(std::uint64_t record) noexcept {
    return first_of(record) + (record & (most_bytes - 1)) + 1;
  }
};

static_assert(sizeof(trace_sink) == 32 && std::is_trivially_copyable_v<trace_sink>);

/// A parameter of a kernel through which accesses are traced; traced_ptr is one.
template <class P>
concept traced_parameter = requires {
  typename P::element_type;
}
&&std::constructible_from<P, typename P::element_type*, trace_sink*>;

/// Runs kernels whose pointers are traced_ptr and says what each has read and written.
///
///   access_recorder recorder;
///   operation_access seen = recorder.trace("scale", {.grid = blocks, .block = 256},
///                                          scale<traced_ptr<float>>, data, n, 2.0f);
///
/// The kernel runs, once, with all its effects; whether it reads a byte before it writes it is not
/// recorded, so reads count first. What it accesses by other means than such pointers is not seen.
///
/// Differs  launches directly, which slows later graphs of the process: not in one that is timed.
/// Errors   too_small, naming the kernel and the records it wanted, if they had no room: nothing is
///          left out silently. The kernel has run then. bad_option for a capacity out of range;
///          device_failed with CUDA's words. A kernel that never ends is waited for.
/// Cost     a record of 8 bytes for each access of a warp to bytes in a row or to the same bytes,
/// and
///          for each access of a thread otherwise; 16 bytes of device memory for each of `records`.
/// Threads  one at a time.
class access_recorder {
public:
  static constexpr std::size_t most_records = (std::size_t{1} << 31) - 1;

  /// Of the GPU that is current; room for so many records of one kernel.
  explicit access_recorder(std::size_t records = std::size_t{1} << 24);
  ~access_recorder();
  access_recorder(access_recorder&&) noexcept;
  access_recorder& operator=(access_recorder&&) noexcept;

  /// Arguments as they are for the kernel with plain pointers.
  template <class... Parameters, class... Arguments>
  [[nodiscard]] operation_access trace(const std::string& name, const call_shape& shape,
                                       void (*kernel)(Parameters...), Arguments&&... arguments) {
    static_assert(sizeof...(Parameters) == sizeof...(Arguments),
                  "trace: as many arguments as the kernel has parameters");
    std::tuple<std::remove_cv_t<Parameters>...> values(
        parameter<std::remove_cv_t<Parameters>>(std::forward<Arguments>(arguments))...);
    std::apply(
        [&](auto&... value) {
          std::array<void*, sizeof...(Parameters) + 1> pointers{
              const_cast<void*>(static_cast<const void*>(std::addressof(value)))..., nullptr};
          launch(name, shape, reinterpret_cast<const void*>(kernel), pointers.data());
        },
        values);
    return collect(name);
  }

private:
  struct state;

  template <class P, class A>
  [[nodiscard]] P parameter(A&& argument) const {
    if constexpr (traced_parameter<P>)
      return P(std::forward<A>(argument), sink());
    else
      return static_cast<P>(std::forward<A>(argument));
  }

  [[nodiscard]] trace_sink* sink() const noexcept; ///< on the device
  void launch(const std::string& name, const call_shape& shape, const void* kernel,
              void** arguments);
  [[nodiscard]] operation_access collect(const std::string& name);

  std::unique_ptr<state> state_;
};

/// What was recorded into a sink of the host's, by traced pointers that the host itself used.
/// Errors   too_small, as access_recorder.
[[nodiscard]] operation_access accesses_of(const trace_sink& host_sink, const std::string& name);

} // namespace gsched::cuda
