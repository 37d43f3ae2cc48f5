// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/launch.hpp>
#include <gsched/cuda/colocate/pad_block.cuh>
#include <gsched/cuda/colocate/pad_table.hpp>
#include <gsched/cuda/detail/pad_family.cuh>

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

namespace gsched::cuda {

namespace detail {

template <class F>
inline constexpr std::uint32_t most_threads = F::threads != 0 ? F::threads : 1024;

/// Runs one block of the entry's function. The compiler turns the comparisons into a switch.
template <class... F, std::size_t Bytes>
__device__ __forceinline__ void run_pad_entry(pad_functions<F...>, const pad_entry<Bytes>& e,
                                              std::uint32_t at) {
  extern __shared__ __align__(16) unsigned char gsched_pad_shared[];
  std::uint32_t place = 0;
  [[maybe_unused]] const auto run = [&]<class G>(std::type_identity<G>) {
    if (e.function != place++) return false;
    const std::uint32_t threads = G::threads != 0 ? G::threads : e.threads;
    if (threadIdx.x < threads) {
      const G f = *reinterpret_cast<const G*>(e.arguments);
      f(pad_block{e.first + at, e.grid, threadIdx.x, threads, gsched_pad_shared});
    }
    return true;
  };
  static_cast<void>((run(std::type_identity<F>{}) || ...));
}

/// Runs one block of a padded kernel. The real-time blocks come first, because SMs receive blocks
/// in that order. The real-time function has code of its own: its arguments are at a fixed offset,
/// as in a plain kernel.
template <class Family, class Real, class Corunners>
__device__ __forceinline__ void run_pad_block(const typename Family::parameters& p) {
  if (blockIdx.x < p.real_time.blocks) {
    run_pad_entry(Real{}, p.real_time, blockIdx.x);
    return;
  }
  std::uint32_t at = blockIdx.x - p.real_time.blocks;
  std::uint32_t i = 0;
  for (; i + 1 < Family::most_corunners && at >= p.corunners[i].blocks; ++i)
    at -= p.corunners[i].blocks;
  run_pad_entry(Corunners{}, p.corunners[i], at);
}

/// The proxy kernel of a family at one occupancy level.
template <class Family, std::uint32_t Registers>
__global__ void __maxnreg__(Registers)
    pad_proxy_kernel(const __grid_constant__ typename Family::parameters p) {
  run_pad_block<Family, typename Family::real, typename Family::corunners>(p);
}

/// A kernel of one function in one role, with the registers that the compiler gives it without a
/// limit. It is only queried for its registers, never launched. A limit of 255 would let it use
/// more than it needs.
template <class Family, class Real, class Corunners, std::uint32_t Threads>
__global__ void __launch_bounds__(Threads)
    pad_demand_kernel(const __grid_constant__ typename Family::parameters p) {
  run_pad_block<Family, Real, Corunners>(p);
}

template <class F>
struct plain_parameters {
  F function;
  extent grid{};
};

template <class F>
__global__ void __launch_bounds__(most_threads<F>)
    plain_kernel(const __grid_constant__ plain_parameters<F> p) {
  extern __shared__ __align__(16) unsigned char gsched_pad_shared[];
  const F f = p.function;
  const std::uint32_t threads = F::threads != 0 ? F::threads : blockDim.x;
  f(pad_block{blockIdx.x, p.grid, threadIdx.x, threads, gsched_pad_shared});
}

template <class Family, class List>
struct pad_demands;
template <class Family, class... F>
struct pad_demands<Family, pad_functions<F...>> {
  static void add_real(std::vector<pad_table::kernel>& to) {
    (to.push_back({reinterpret_cast<const void*>(
         &pad_demand_kernel<Family, pad_functions<F>, pad_functions<>, most_threads<F>>)}),
     ...);
  }
  static void add_corunners(std::vector<pad_table::kernel>& to) {
    (to.push_back({reinterpret_cast<const void*>(
         &pad_demand_kernel<Family, pad_functions<>, pad_functions<F>, most_threads<F>>)}),
     ...);
  }
};

template <class Family>
std::vector<pad_table::kernel> pad_proxies() {
  constexpr pad_levels levels = levels_of_family<Family>();
  return [&]<std::size_t... Is>(std::index_sequence<Is...>) {
    return std::vector<pad_table::kernel>{
        {reinterpret_cast<const void*>(&pad_proxy_kernel<Family, levels.registers[Is]>),
         levels.registers[Is]}...};
  }(std::make_index_sequence<levels.size>{});
}

template <class Family>
std::vector<pad_table::kernel> pad_demands_of() {
  std::vector<pad_table::kernel> all;
  pad_demands<Family, typename Family::real>::add_real(all);
  pad_demands<Family, typename Family::corunners>::add_corunners(all);
  return all;
}

} // namespace detail

} // namespace gsched::cuda
