// SPDX-License-Identifier: Apache-2.0
#include <gsched/cuda/colocate/pad_table.hpp>

#include <gsched/cuda/colocate/pad_graph.hpp>
#include <gsched/cuda/error.hpp>
#include <gsched/occupancy/calculator.hpp>

#include <cuda_runtime_api.h>

#include <algorithm>
#include <utility>

namespace gsched::cuda {

namespace {

constexpr const char* what = "padded kernel";
constexpr std::uint64_t most_blocks = 0x7fffffff;

cudaFuncAttributes attributes_of(const void* function) {
  cudaFuncAttributes a{};
  check(cudaFuncGetAttributes(&a, function), what);
  return a;
}

std::string text(std::uint64_t n) { return std::to_string(n); }

bool has_valid_threads(const pad_request& p) {
  return p.threads > 0 && p.threads <= 1024 && p.threads % 32 == 0;
}

std::string place(std::size_t request) {
  return request == 0 ? "real-time part" : "co-runner " + text(request - 1);
}

} // namespace

pad_table pad_table::of_kernels(const gpu& on, std::span<const kernel> proxies,
                                std::span<const kernel> demands, std::size_t most_corunners) {
  std::vector<pad_proxy> found;
  for (const kernel& k : proxies) {
    const cudaFuncAttributes a = attributes_of(k.function);
    pad_proxy p;
    p.function = k.function;
    p.limit = k.limit;
    p.registers = static_cast<std::uint32_t>(a.numRegs);
    p.static_shared_bytes = static_cast<std::uint32_t>(a.sharedSizeBytes);
    p.local_bytes = static_cast<std::uint32_t>(a.localSizeBytes);
    const std::uint32_t most = on.sm.max_shared_per_block;
    allow_shared_memory(k.function, most - std::min(p.static_shared_bytes, most));
    found.push_back(p);
  }
  std::vector<std::uint32_t> asked;
  for (const kernel& k : demands)
    asked.push_back(static_cast<std::uint32_t>(attributes_of(k.function).numRegs));
  return {on, std::move(found), std::move(asked), most_corunners};
}

bool pad_table::are_valid(std::span<const pad_request> requests) const noexcept {
  if (requests.empty() || requests.size() > most_corunners_ + 1) return false;
  std::uint64_t blocks = 0;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (i == 0 && requests[i].blocks == 0) continue;
    if (!known(requests[i]) || requests[i].blocks == 0 || !has_valid_threads(requests[i]))
      return false;
    blocks += requests[i].blocks;
  }
  return blocks > 0 && blocks <= most_blocks;
}

pad_table::sum pad_table::add_up(std::span<const pad_request> requests) const noexcept {
  sum all;
  for (const pad_request& p : requests) {
    if (p.blocks == 0) continue;
    all.blocks += p.blocks;
    all.threads = std::max(all.threads, p.threads);
    all.registers = std::max({all.registers, demands_[p.demand], p.registers});
    all.shared_bytes = std::max(all.shared_bytes, p.shared_bytes);
  }
  return all;
}

const pad_proxy* pad_table::proxy_for(std::uint32_t registers) const noexcept {
  for (const pad_proxy& p : proxies_)
    if (p.limit >= registers) return &p;
  return nullptr;
}

launch_shape pad_table::shape_of(const pad_proxy& p, const sum& all) const noexcept {
  launch_shape s;
  s.grid.x = static_cast<std::uint32_t>(all.blocks);
  s.block.x = all.threads;
  s.registers_per_thread = p.registers;
  s.static_shared_bytes = p.static_shared_bytes;
  s.dynamic_shared_bytes = all.shared_bytes;
  return s;
}

std::optional<pad_launch> pad_table::choose(std::span<const pad_request> requests) const noexcept {
  if (!are_valid(requests)) return {};
  const sum all = add_up(requests);
  const pad_proxy* const p = proxy_for(all.registers);
  if (p == nullptr) return {};
  pad_launch c;
  c.proxy = p;
  c.blocks = static_cast<std::uint32_t>(all.blocks);
  c.threads = all.threads;
  c.shared_bytes = all.shared_bytes;
  c.blocks_per_sm = max_blocks_per_sm(on_.sm, shape_of(*p, all));
  if (c.blocks_per_sm == 0) return {};
  return c;
}

std::string pad_table::why_not(std::span<const pad_request> requests) const {
  const std::string head = "padded kernel: ";
  if (requests.empty()) return head + "no parts, expected at least one";
  if (requests.size() > most_corunners_ + 1)
    return head + text(requests.size() - 1) + " co-runners, expected at most " +
           text(most_corunners_);
  std::uint64_t blocks = 0;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    blocks += requests[i].blocks;
    if (i == 0 && requests[i].blocks == 0) continue;
    if (!known(requests[i]))
      return head + place(i) + ": a function that the family does not have in this role";
    if (requests[i].blocks == 0) return head + place(i) + ": no blocks, expected some";
    if (!has_valid_threads(requests[i]))
      return head + place(i) + ": " + text(requests[i].threads) +
             " threads a block, expected a multiple of 32 up to 1024";
  }
  if (blocks == 0 || blocks > most_blocks)
    return head + text(blocks) + " blocks, expected 1 to " + text(most_blocks);
  const sum all = add_up(requests);
  const pad_proxy* const p = proxy_for(all.registers);
  if (p == nullptr)
    return head + text(all.registers) + " registers a thread, expected at most " +
           text(proxies_.empty() ? 0 : proxies_.back().limit);
  const std::string wrong = why_not_fit(on_.sm, shape_of(*p, all));
  return wrong.empty() ? wrong : head + wrong;
}

} // namespace gsched::cuda
