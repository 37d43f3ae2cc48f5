// SPDX-License-Identifier: Apache-2.0
#include "graph/flatten/graph_read.hpp"
#include "graph/program_node.hpp"

#include "profile/kernel_signature.hpp"
#include <gsched/cuda/driver.hpp>
#include <gsched/cuda/error.hpp>
#include <gsched/cuda_tools/graph_accesses.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace gsched::cuda {

namespace {

/// Caches the allocation of each address that was looked up.
class allocations {
public:
  /// The allocation around an address; empty if there is none.
  [[nodiscard]] byte_range around(std::uint64_t address) {
    const auto [found, is_new] = known_.try_emplace(address);
    if (is_new) found->second = ask(address);
    return found->second;
  }

private:
  [[nodiscard]] static byte_range ask(CUdeviceptr address) noexcept {
    const driver_functions& d = driver();
    CUdeviceptr first = 0;
    std::size_t bytes = 0;
    if (d.cuPointerGetAttribute(&first, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, address) !=
            CUDA_SUCCESS ||
        d.cuPointerGetAttribute(&bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, address) != CUDA_SUCCESS)
      return {};
    if (address < first || address - first >= bytes) return {};
    return {first, first + bytes};
  }

  std::unordered_map<std::uint64_t, byte_range> known_;
};

operation_access kernel_accesses(const program_node& node, const std::string& symbol,
                                 const graph_access_options& how, allocations& memory,
                                 const std::string& where) {
  operation_access o;
  o.name = demangled(symbol);
  o.assumed = true;
  std::vector<parameter_kind> kinds = parameters_of(symbol);
  if (kinds.size() != node.arguments.size()) kinds.assign(node.arguments.size(), {});
  std::vector<byte_range> reads, writes;
  if (std::find(kinds.begin(), kinds.end(), parameter_kind::pointer_to_pointer) != kinds.end())
    o.says = declared::clobbers;
  node.any_word(where, [&](std::size_t i, std::uint64_t address) {
    const byte_range whole = address == 0 ? byte_range{} : memory.around(address);
    if (whole.empty()) return false;
    reads.push_back(whole);
    if (!how.trust_const || kinds[i] != parameter_kind::pointer_to_const) writes.push_back(whole);
    return false;
  });
  o.reads = access_set(std::move(reads));
  o.writes = access_set(std::move(writes));
  if (o.writes.empty()) o.says = declared::clobbers;
  return o;
}

/// The rows of a copy or a set. If they are too many to list, one range covers all of them.
struct rows {
  std::uint64_t base = 0;
  std::uint64_t width = 0; ///< bytes
  std::uint64_t height = 1;
  std::uint64_t depth = 1;
  std::uint64_t pitch = 0;
  std::uint64_t slice = 0;

  [[nodiscard]] bool can_list() const noexcept { return height * depth <= 65536; }
  [[nodiscard]] access_set accesses() const {
    if (!can_list())
      return access_set({{base, base + (depth - 1) * slice + (height - 1) * pitch + width}});
    std::vector<byte_range> all;
    for (std::uint64_t z = 0; z < depth; ++z)
      for (std::uint64_t y = 0; y < height; ++y) {
        const std::uint64_t first = base + z * slice + y * pitch;
        all.push_back({first, first + width});
      }
    return access_set(std::move(all));
  }
};

/// One end of a copy. Arrays have no addresses.
rows end_of(const CUDA_MEMCPY3D& c, CUmemorytype type, const void* host, CUdeviceptr device,
            std::size_t x, std::size_t y, std::size_t z, std::size_t pitch, std::size_t height) {
  if (type == CU_MEMORYTYPE_ARRAY) return {};
  rows r;
  const std::uint64_t base =
      type == CU_MEMORYTYPE_HOST ? reinterpret_cast<std::uint64_t>(host) : device;
  r.width = c.WidthInBytes;
  r.height = std::max<std::size_t>(c.Height, 1);
  r.depth = std::max<std::size_t>(c.Depth, 1);
  r.pitch = pitch;
  r.slice = pitch * height;
  r.base = base + z * r.slice + y * r.pitch + x;
  return r;
}

operation_access copy_accesses(const CUDA_MEMCPY3D& c) {
  const rows from = end_of(c, c.srcMemoryType, c.srcHost, c.srcDevice, c.srcXInBytes, c.srcY,
                           c.srcZ, c.srcPitch, c.srcHeight);
  const rows to = end_of(c, c.dstMemoryType, c.dstHost, c.dstDevice, c.dstXInBytes, c.dstY, c.dstZ,
                         c.dstPitch, c.dstHeight);
  operation_access o;
  o.kind = operation_kind::memcpy;
  o.name = "memcpy";
  o.reads = from.accesses();
  o.writes = to.accesses();
  o.assumed = !from.can_list() || !to.can_list();
  return o;
}

operation_access set_accesses(const CUDA_MEMSET_NODE_PARAMS& s) {
  const rows to{
      s.dst, std::uint64_t{s.elementSize} * s.width, std::max<std::size_t>(s.height, 1), 1, s.pitch,
      0};
  operation_access o;
  o.kind = operation_kind::memset;
  o.name = "memset";
  o.writes = to.accesses();
  o.assumed = !to.can_list();
  return o;
}

} // namespace

access_trace accesses_of(const program& p, const graph_access_options& how) {
  int ordinal = 0;
  check(cudaGetDevice(&ordinal), "CUDA device");
  const bound_gpu here(ordinal);
  access_trace t;
  t.model = p.host().name();
  allocations memory;
  for (std::size_t i = 0; i < p.host().size(); ++i) {
    const auto& node = *static_cast<const program_node*>(
        static_cast<const action*>(p.host().operations()[i].handle));
    const std::string where = "graph " + t.model + ": operation " + std::to_string(i);
    if (node.type == CU_GRAPH_NODE_TYPE_KERNEL)
      t.operations.push_back(kernel_accesses(node, p.facts()[i].symbol, how, memory, where));
    else
      t.operations.push_back(node.type == CU_GRAPH_NODE_TYPE_MEMCPY ? copy_accesses(node.copy)
                                                                    : set_accesses(node.set));
  }
  return t;
}

} // namespace gsched::cuda
