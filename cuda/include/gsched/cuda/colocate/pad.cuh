// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/time.hpp>
#include <gsched/cuda/colocate/pad_graph.hpp>
#include <gsched/cuda/colocate/pad_table.hpp>
#include <gsched/cuda/detail/pad_family.cuh>
#include <gsched/cuda/detail/pad_kernels.cuh>
#include <gsched/cuda/detail/pad_work.cuh>
#include <gsched/preempt/colocate/candidate.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <vector>

namespace gsched::cuda {

/// Launches functions of a family as one kernel: a real-time function, which gets the first blocks,
/// and co-runners.
///
///   using family = pad_family<gemm, copy>;
///   padder<family> pads(find_gpu(0));
///   pad_work<family> mine(gemm{a, b, c, n}, {n / 64, n / 64}, 16384);
///   pad_work<family> corunner(copy{x, y, m}, {m});
///   pads.launch(stream, mine, {{corunner.range(0, 200)}});
///   pads.launch(stream, {}, {{corunner.range(200, m - 200)}}); // the remaining blocks, alone
///
/// Source   Han et al., ACM TOCS 44(1), 2025, sections 5.1 and 5.5, doi:10.1145/3768622.
/// Differs  functions are inlined, neither called nor jumped to; the family names them at compile
///          time.
/// Order    one launch is one kernel: its functions start together, and later work waits for all of
///          them. Launches through one padder run one after another, on any stream.
/// Errors   does_not_fit, with why_not() as its line, or CUDA's codes. Functions that are not
///          noexcept throw them.
/// Cost     launch: the choice of a kernel and two calls of the driver; no allocation.
/// Threads  one owner.
template <class Family>
class padder {
public:
  using work = pad_work<Family>;

  explicit padder(const gpu& on)
      : table_(pad_table::of_kernels(on, detail::pad_proxies<Family>(),
                                     detail::pad_demands_of<Family>(), Family::most_corunners)) {
    const typename Family::parameters none{};
    pad_call any;
    any.function = table_.proxies().front().function;
    any.blocks = 1;
    any.threads = 32;
    any.parameters = &none;
    graph_.make(any);
  }

  [[nodiscard]] std::error_code launch(cudaStream_t stream, const work& real_time,
                                       std::span<const work> corunners) noexcept {
    prepared p;
    if (!prepare(p, real_time, corunners)) return errc::does_not_fit;
    return graph_.launch(stream, p.call());
  }

  /// Adds the padded kernel to a graph as a node that depends on the nodes in `after`.
  cudaGraphNode_t add_node(cudaGraph_t graph, std::span<const cudaGraphNode_t> after,
                           const work& real_time, std::span<const work> corunners) const {
    return add_pad_node(graph, after, prepared_or_throw(real_time, corunners).call());
  }
  /// Replaces the functions of a node of an instantiated graph, from its next launch on.
  [[nodiscard]] std::error_code set_node(cudaGraphExec_t graph, cudaGraphNode_t node,
                                         const work& real_time,
                                         std::span<const work> corunners) const noexcept {
    prepared p;
    if (!prepare(p, real_time, corunners)) return errc::does_not_fit;
    return set_pad_node(graph, node, p.call());
  }

  /// The configuration of a launch; empty if the functions cannot be launched together.
  [[nodiscard]] std::optional<pad_launch> choose(const work& real_time,
                                                 std::span<const work> corunners) const noexcept {
    if (corunners.size() > Family::most_corunners) return {};
    const requests all(real_time, corunners);
    return table_.choose(all.get());
  }
  /// Why they cannot, in one line; empty if they can.
  [[nodiscard]] std::string why_not(const work& real_time, std::span<const work> corunners) const {
    if (corunners.size() > Family::most_corunners)
      return "padded kernel: " + std::to_string(corunners.size()) +
             " co-runners, expected at most " + std::to_string(Family::most_corunners);
    const requests all(real_time, corunners);
    return table_.why_not(all.get());
  }

  /// The facts of a function for the padding rules, with the registers of the proxy kernel that
  /// runs it alone. Measures both times on the current GPU, which runs the function some hundred
  /// times.
  [[nodiscard]] kernel_variant measure(const work& of) const {
    kernel_variant v = facts(of);
    v.kernel_time = measure_pad_call(prepared_alone(of).call());
    v.block_time = measure_pad_call(prepared_alone(of.range(0, 1)).call());
    return v;
  }
  /// The function with a register count that makes it fast: among the proxy kernels that can run
  /// it, the one with the fewest registers whose time is within `tolerance` of the fastest. With
  /// only the registers that the function needs alone, a kernel of many functions may spill.
  /// Measures on the current GPU, about ten times as often as measure().
  [[nodiscard]] work fitted(const work& of, double tolerance = 0.01) const {
    struct trial {
      std::uint32_t limit;
      duration time;
    };
    std::vector<trial> trials;
    const std::uint32_t least = prepared_alone(of).choice.proxy->limit;
    std::uint32_t had = 0;
    for (const pad_proxy& p : table_.proxies()) {
      if (p.limit < least || p.registers == had) continue; // the limit changes nothing
      if (!can_run_alone(of.with_registers(p.limit))) break;
      trials.push_back({p.limit, duration::max()});
      had = p.registers;
    }
    static_cast<void>(measure_pad_call(prepared_alone(of).call())); // warms the GPU's clocks up
    for (int round = 0; round < 3; ++round)
      for (trial& t : trials)
        t.time =
            std::min(t.time, measure_pad_call(prepared_alone(of.with_registers(t.limit)).call()));
    duration best = duration::max();
    for (const trial& t : trials) best = std::min(best, t.time);
    const auto enough = static_cast<double>(best.count()) * (1 + tolerance);
    for (const trial& t : trials)
      if (static_cast<double>(t.time.count()) <= enough) return of.with_registers(t.limit);
    return of;
  }
  /// As measure(), without the times.
  [[nodiscard]] kernel_variant facts(const work& of) const {
    const prepared p = prepared_alone(of);
    kernel_variant v;
    v.registers_per_thread = p.choice.proxy->registers;
    v.shared_bytes = of.shared_bytes() + p.choice.proxy->static_shared_bytes;
    v.threads_per_block = of.threads();
    v.blocks = of.blocks();
    v.level = level_of(table_.on().sm, v);
    v.function =
        of.corunner_place() < Family::corunners::size ? of.corunner_place() : of.real_place();
    return v;
  }

  [[nodiscard]] const pad_table& table() const noexcept { return table_; }

private:
  struct prepared {
    typename Family::parameters parameters{};
    pad_launch choice;

    [[nodiscard]] pad_call call() const noexcept {
      return {choice.proxy->function, choice.blocks, choice.threads, choice.shared_bytes,
              &parameters};
    }
  };

  class requests {
  public:
    requests(const work& real_time, std::span<const work> corunners) noexcept
        : size_(corunners.size() + 1) {
      constexpr auto reals = static_cast<std::uint32_t>(Family::real::size);
      const auto known = [](std::uint32_t place, std::size_t of, std::uint32_t from) {
        return place < of ? place + from : pad_request::unknown;
      };
      all_[0] = {known(real_time.real_place(), reals, 0), real_time.blocks(), real_time.threads(),
                 real_time.shared_bytes(), real_time.registers()};
      for (std::size_t i = 0; i < corunners.size(); ++i)
        all_[i + 1] = {known(corunners[i].corunner_place(), Family::corunners::size, reals),
                       corunners[i].blocks(), corunners[i].threads(), corunners[i].shared_bytes(),
                       corunners[i].registers()};
    }
    [[nodiscard]] std::span<const pad_request> get() const noexcept { return {all_.data(), size_}; }

  private:
    std::array<pad_request, Family::most_corunners + 1> all_{};
    std::size_t size_;
  };

  [[nodiscard]] bool prepare(prepared& p, const work& real_time,
                             std::span<const work> corunners) const noexcept {
    const std::optional<pad_launch> c = choose(real_time, corunners);
    if (!c) return false;
    p.choice = *c;
    p.parameters.real_time = real_time.entry();
    p.parameters.real_time.function = real_time.real_place();
    for (std::size_t i = 0; i < corunners.size(); ++i) {
      p.parameters.corunners[i] = corunners[i].entry();
      p.parameters.corunners[i].function = corunners[i].corunner_place();
    }
    return true;
  }
  [[nodiscard]] prepared prepared_or_throw(const work& real_time,
                                           std::span<const work> corunners) const {
    prepared p;
    if (!prepare(p, real_time, corunners))
      throw error(errc::does_not_fit, why_not(real_time, corunners));
    return p;
  }
  [[nodiscard]] bool can_run_alone(const work& of) const noexcept {
    if (of.real_place() < Family::real::size) return choose(of, {}).has_value();
    return choose({}, {&of, 1}).has_value();
  }
  /// A launch of `of` alone, in its role; in the real-time role if it has both.
  [[nodiscard]] prepared prepared_alone(const work& of) const {
    if (of.real_place() < Family::real::size) return prepared_or_throw(of, {});
    return prepared_or_throw({}, {&of, 1});
  }

  pad_table table_;
  pad_graph graph_;
};

/// A function as a kernel of its own, outside of any family.
template <paddable F>
class plain_kernel {
public:
  /// Errors   device_failed with CUDA's message if a block cannot have that much shared memory.
  plain_kernel(const F& f, extent grid, std::uint32_t shared_bytes = 0,
               std::uint32_t threads = F::threads)
      : parameters_{f, grid}, shared_bytes_(shared_bytes), threads_(threads) {
    allow_shared_memory(kernel(), shared_bytes);
  }
  /// The call refers to this object's parameters.
  [[nodiscard]] pad_call call() const noexcept {
    return {kernel(), static_cast<std::uint32_t>(parameters_.grid.volume()), threads_,
            shared_bytes_, &parameters_};
  }

private:
  [[nodiscard]] static const void* kernel() noexcept {
    return reinterpret_cast<const void*>(&detail::plain_kernel<F>);
  }

  detail::plain_parameters<F> parameters_;
  std::uint32_t shared_bytes_;
  std::uint32_t threads_;
};

} // namespace gsched::cuda
