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

/// The buffer into which traced pointers write records. A record is one word: bit 63 is set for a
/// write, the 52 bits below are the address, and the lowest 11 bits are the size in bytes less one.
/// Sorted words are reads, then writes, each by address.
///
/// Units    plain words, shared by host and device. Addresses of GPUs have at most 49 bits.
struct trace_sink {
  static constexpr unsigned size_bits = 11;
  static constexpr unsigned address_bits = 52;
  static constexpr unsigned most_bytes = 1u << size_bits; ///< limit of one record
  static constexpr std::uint64_t write_bit = std::uint64_t{1} << 63;

  std::uint64_t* records = nullptr;
  unsigned long long capacity = 0;
  unsigned long long made = 0;    ///< records, including those that did not fit
  unsigned long long refused = 0; ///< accesses at addresses beyond 52 bits

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

/// A kernel parameter that records accesses, such as traced_ptr.
template <class P>
concept traced_parameter = requires { typename P::element_type; } &&
                           std::constructible_from<P, typename P::element_type*, trace_sink*>;

/// Runs kernels whose pointers are traced_ptr, and returns what they read and wrote.
///
///   access_recorder recorder;
///   operation_access seen = recorder.trace("scale", {.grid = blocks, .block = 256},
///                                          scale<traced_ptr<float>>, data, n, 2.0f);
///
/// The kernel runs once, with all its effects. The order of reads and writes is not recorded, so
/// reads count as first. Accesses by other means than traced pointers are not seen.
///
/// Differs  launches directly, which slows later graphs of the process: do not use it in a process
///          whose times are measured.
/// Errors   too_small, naming the kernel and its number of records, if they do not fit; no record
///          is dropped silently. The kernel has run then. bad_option for a capacity out of range;
///          device_failed with CUDA's message. Waits for a kernel that never ends.
/// Cost     one record of 8 bytes for each access of a warp to consecutive bytes or to the same
///          bytes, and for each access of a thread otherwise; 16 bytes of device memory for each of
///          `records`.
/// Threads  one at a time.
class access_recorder {
public:
  static constexpr std::size_t most_records = (std::size_t{1} << 31) - 1;

  /// On the current GPU, with space for `records` records of one kernel.
  explicit access_recorder(std::size_t records = std::size_t{1} << 24);
  ~access_recorder();
  access_recorder(access_recorder&&) noexcept;
  access_recorder& operator=(access_recorder&&) noexcept;

  /// Takes the arguments of the kernel with plain pointers.
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

  [[nodiscard]] trace_sink* sink() const noexcept; ///< a device pointer
  void launch(const std::string& name, const call_shape& shape, const void* kernel,
              void** arguments);
  [[nodiscard]] operation_access collect(const std::string& name);

  std::unique_ptr<state> state_;
};

/// The accesses recorded in a sink on the host, by traced pointers used on the host.
/// Errors   too_small, as access_recorder.
[[nodiscard]] operation_access accesses_of(const trace_sink& host_sink, const std::string& name);

} // namespace gsched::cuda
