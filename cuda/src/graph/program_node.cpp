// SPDX-License-Identifier: Apache-2.0
#include "graph/program_node.hpp"

#include <gsched/core/error.hpp>
#include <gsched/cuda/driver.hpp>
#include <gsched/cuda/error.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <optional>
#include <string>
#include <vector>

namespace gsched::cuda {

namespace {

std::uint32_t attribute_of(CUfunction f, CUfunction_attribute which, const std::string& where) {
  int value = 0;
  check(driver().cuFuncGetAttribute(&value, which, f), where.c_str());
  return static_cast<std::uint32_t>(std::max(value, 0));
}

/// Blocks of the cluster that a kernel was compiled for; 1 if it was not compiled for a fixed size.
std::uint32_t compiled_cluster(CUfunction f) noexcept {
  std::uint32_t blocks = 1;
  for (const auto side :
       {CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT,
        CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH}) {
    int value = 0;
    if (driver().cuFuncGetAttribute(&value, side, f) == CUDA_SUCCESS && value > 1)
      blocks *= static_cast<std::uint32_t>(value);
  }
  return blocks;
}

/// Pointers to a kernel's arguments, which the launch may have passed as one buffer.
std::vector<void*> arguments_of(CUfunction f, const CUDA_KERNEL_NODE_PARAMS& k) {
  std::byte* buffer = nullptr;
  for (void** e = k.extra; k.kernelParams == nullptr && e != nullptr && *e != CU_LAUNCH_PARAM_END;
       e += 2)
    if (e[0] == CU_LAUNCH_PARAM_BUFFER_POINTER) buffer = static_cast<std::byte*>(e[1]);
  std::vector<void*> arguments;
  std::size_t offset = 0;
  std::size_t size = 0;
  while (driver().cuFuncGetParamInfo(f, arguments.size(), &offset, &size) == CUDA_SUCCESS) {
    if (k.kernelParams != nullptr)
      arguments.push_back(k.kernelParams[arguments.size()]);
    else if (buffer != nullptr)
      arguments.push_back(buffer + offset);
    else
      break;
  }
  return arguments;
}

/// Whether one end of a copy is in host memory. Pointers unknown to CUDA are.
bool is_host(CUmemorytype type, CUdeviceptr unified) noexcept {
  if (type != CU_MEMORYTYPE_UNIFIED) return type == CU_MEMORYTYPE_HOST;
  unsigned found = 0;
  const CUresult got =
      driver().cuPointerGetAttribute(&found, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, unified);
  return got != CUDA_SUCCESS || found == CU_MEMORYTYPE_HOST;
}

/// The GPU that owns the memory at an address; empty for host memory, managed memory, and other
/// values.
std::optional<int> gpu_of(CUdeviceptr at) noexcept {
  const auto told = [&](auto& into, CUpointer_attribute which) {
    return driver().cuPointerGetAttribute(&into, which, at) == CUDA_SUCCESS;
  };
  unsigned type = 0;
  unsigned managed = 0;
  int gpu = 0;
  if (at == 0 || !told(type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE) || type != CU_MEMORYTYPE_DEVICE ||
      !told(managed, CU_POINTER_ATTRIBUTE_IS_MANAGED) || managed != 0 ||
      !told(gpu, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL))
    return std::nullopt;
  return gpu;
}

copy_direction direction_of(const CUDA_MEMCPY3D& c) noexcept {
  const bool from_host = is_host(c.srcMemoryType, c.srcDevice);
  const bool to_host = is_host(c.dstMemoryType, c.dstDevice);
  if (from_host) return to_host ? copy_direction::host_to_host : copy_direction::host_to_device;
  return to_host ? copy_direction::device_to_host : copy_direction::device_to_device;
}

} // namespace

void program_node::read(const std::string& where, int gpu, attribute_reader& attributes_of,
                        operation& op, node_facts& facts) {
  if (type == CU_GRAPH_NODE_TYPE_KERNEL) read_kernel(where, gpu, attributes_of, op, facts);
  if (type == CU_GRAPH_NODE_TYPE_MEMCPY) {
    read_copy(where, op);
    work = work_of(copy, gpu);
  }
  if (type == CU_GRAPH_NODE_TYPE_MEMSET) {
    read_set(where, op);
    if (gpu_of(set.dst).value_or(gpu) == gpu) work = work_of(set);
  }
  op.handle = static_cast<const action*>(this);
}

void program_node::read_kernel(const std::string& where, int gpu, attribute_reader& attributes_of,
                               operation& op, node_facts& facts) {
  const driver_functions& d = driver();
  check(d.cuGraphKernelNodeGetParams(node, &kernel), where.c_str());
  function = kernel.func;
  if (function == nullptr) check(d.cuKernelGetFunction(&function, kernel.kern), where.c_str());
  expect_gpu(where, gpu);
  allow_as_captured(function, kernel.sharedMemBytes);
  captured = attributes_of.read(node, kernel, where);
  for (const CUlaunchAttribute& a : captured)
    if (a.id == CU_LAUNCH_ATTRIBUTE_PRIORITY) priority = a.value.priority;
  const char* symbol = nullptr;
  check(d.cuFuncGetName(&symbol, function), where.c_str());
  facts.symbol = symbol;
  facts.local_bytes = attribute_of(function, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, where);

  op.kind = operation_kind::kernel;
  launch_shape& l = op.launch;
  l.grid = {kernel.gridDimX, kernel.gridDimY, kernel.gridDimZ};
  l.block = {kernel.blockDimX, kernel.blockDimY, kernel.blockDimZ};
  l.registers_per_thread = attribute_of(function, CU_FUNC_ATTRIBUTE_NUM_REGS, where);
  l.static_shared_bytes = attribute_of(function, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, where);
  l.dynamic_shared_bytes = kernel.sharedMemBytes;
  read_attributes(op);
  if (attribute_count == 0 || attributes[0].id != CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
    l.cluster_blocks = compiled_cluster(function);

  // A kernel that has run is never refused: if the driver reports that no block fits, assume one.
  int blocks = 0;
  if (d.cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function,
                                                    static_cast<int>(l.threads_per_block()),
                                                    kernel.sharedMemBytes) == CUDA_SUCCESS)
    op.max_blocks_per_sm = static_cast<std::uint32_t>(std::max(blocks, 1));

  arguments = arguments_of(function, kernel);
  find_report(where);
  facts.instrumented = reports_by.has_value();
  preempted_by = find_preemption(where, function, arguments, {attributes.data(), attribute_count},
                                 l.blocks(), l.cluster_blocks);
  if (!preempted_by) return;
  op.preemptible = preempted_by->captured.preemptible;
  op.checkpoint = std::chrono::nanoseconds{preempted_by->captured.checkpoint_ns};
}

/// The context of a kernel node identifies the GPU. It is set only for kernels that do not belong
/// to a context themselves.
void program_node::expect_gpu(const std::string& where, int gpu) const {
  if (kernel.func != nullptr || kernel.ctx == nullptr) return;
  const driver_functions& d = driver();
  int owner_gpu = 0;
  check(d.cuCtxPushCurrent(kernel.ctx), where.c_str());
  const cudaError_t found = cudaGetDevice(&owner_gpu); // of the context
  CUcontext was = nullptr;
  d.cuCtxPopCurrent(&was);
  check(found, where.c_str());
  if (owner_gpu != gpu)
    throw error(errc::bad_graph, where + ": a kernel of GPU " + std::to_string(owner_gpu) +
                                     ", expected one of GPU " + std::to_string(gpu));
}

/// Reads the attributes for a direct launch, the cluster first. A direct launch has no edges.
/// Default values are not passed, because the driver does not accept all of them.
void program_node::read_attributes(operation& op) {
  const auto get = [this](CUlaunchAttributeID id, auto is_set) {
    CUlaunchAttribute a{};
    a.id = id;
    if (driver().cuGraphKernelNodeGetAttribute(node, id, &a.value) == CUDA_SUCCESS &&
        is_set(a.value))
      attributes[attribute_count++] = a;
  };
  get(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, [&](const CUlaunchAttributeValue& v) {
    if (v.clusterDim.x == 0) return false;
    op.launch.cluster_blocks = v.clusterDim.x * v.clusterDim.y * v.clusterDim.z;
    return true;
  });
  if (attribute_count > 0) // the kernel has a cluster
    get(CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE, [](const auto& v) {
      return v.clusterSchedulingPolicyPreference != CU_CLUSTER_SCHEDULING_POLICY_DEFAULT;
    });
  get(CU_LAUNCH_ATTRIBUTE_COOPERATIVE, [](const auto& v) { return v.cooperative != 0; });
  get(CU_LAUNCH_ATTRIBUTE_PRIORITY, [](const auto& v) { return v.priority != 0; });
  get(CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW,
      [](const auto& v) { return v.accessPolicyWindow.num_bytes != 0; });
  get(CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN,
      [](const auto& v) { return v.memSyncDomain != CU_LAUNCH_MEM_SYNC_DOMAIN_DEFAULT; });
}

bool program_node::is_cooperative() const noexcept {
  return std::any_of(captured.begin(), captured.end(), [](const CUlaunchAttribute& a) {
    return a.id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE && a.value.cooperative != 0;
  });
}

void program_node::find_report(const std::string& where) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    std::size_t offset = 0;
    std::size_t size = 0;
    check(driver().cuFuncGetParamInfo(function, i, &offset, &size), where.c_str());
    report found;
    if (size != sizeof(report)) continue;
    std::memcpy(static_cast<void*>(&found), arguments[i], sizeof found);
    if (found.mark != report::mark_value) continue;
    reports_by = i;
    if (arguments.size() > max_reported_arguments)
      throw error(errc::bad_graph,
                  where + ": an instrumented kernel of " + std::to_string(arguments.size()) +
                      " parameters, expected at most " + std::to_string(max_reported_arguments));
    return;
  }
}

void program_node::read_copy(const std::string& where, operation& op) {
  check(driver().cuGraphMemcpyNodeGetParams(node, &copy), where.c_str());
  op.kind = operation_kind::memcpy;
  op.direction = direction_of(copy);
  op.bytes = byte_count{std::uint64_t{copy.WidthInBytes} * std::max<std::size_t>(copy.Height, 1) *
                        std::max<std::size_t>(copy.Depth, 1)};
}

void program_node::read_set(const std::string& where, operation& op) {
  check(driver().cuGraphMemsetNodeGetParams(node, &set), where.c_str());
  op.kind = operation_kind::memset;
  op.bytes =
      byte_count{std::uint64_t{set.elementSize} * set.width * std::max<std::size_t>(set.height, 1)};
}

namespace {

bool is_array(CUmemorytype t) noexcept { return t == CU_MEMORYTYPE_ARRAY; }

/// The start of one end of a copy of a single row that is not an array.
CUdeviceptr start_of(CUmemorytype type, const void* host, CUdeviceptr device, std::size_t x,
                     std::size_t y, std::size_t z, std::size_t pitch, std::size_t height) noexcept {
  const CUdeviceptr base =
      type == CU_MEMORYTYPE_HOST ? reinterpret_cast<CUdeviceptr>(host) : device;
  return base + (z * height + y) * pitch + x;
}

/// Most copies have one row; for these the driver's plain call accepts any two pointers.
CUresult launch_copy(const CUDA_MEMCPY3D& c, CUstream stream) noexcept {
  const bool rows = c.Height > 1 || c.Depth > 1;
  if (rows || is_array(c.srcMemoryType) || is_array(c.dstMemoryType))
    return driver().cuMemcpy3DAsync(&c, stream);
  return driver().cuMemcpyAsync(start_of(c.dstMemoryType, c.dstHost, c.dstDevice, c.dstXInBytes,
                                         c.dstY, c.dstZ, c.dstPitch, c.dstHeight),
                                start_of(c.srcMemoryType, c.srcHost, c.srcDevice, c.srcXInBytes,
                                         c.srcY, c.srcZ, c.srcPitch, c.srcHeight),
                                c.WidthInBytes, stream);
}

CUresult launch_set(const CUDA_MEMSET_NODE_PARAMS& s, CUstream stream) noexcept {
  const driver_functions& d = driver();
  const auto byte = static_cast<unsigned char>(s.value);
  const auto two = static_cast<unsigned short>(s.value);
  if (s.height <= 1) {
    if (s.elementSize == 1) return d.cuMemsetD8Async(s.dst, byte, s.width, stream);
    if (s.elementSize == 2) return d.cuMemsetD16Async(s.dst, two, s.width, stream);
    return d.cuMemsetD32Async(s.dst, s.value, s.width, stream);
  }
  if (s.elementSize == 1)
    return d.cuMemsetD2D8Async(s.dst, s.pitch, byte, s.width, s.height, stream);
  if (s.elementSize == 2)
    return d.cuMemsetD2D16Async(s.dst, s.pitch, two, s.width, s.height, stream);
  return d.cuMemsetD2D32Async(s.dst, s.pitch, s.value, s.width, s.height, stream);
}

} // namespace

CUresult program_node::launch(CUstream stream, const report* to) const noexcept {
  if (type == CU_GRAPH_NODE_TYPE_MEMCPY) return launch_copy(copy, stream);
  if (type == CU_GRAPH_NODE_TYPE_MEMSET) return launch_set(set, stream);
  CUlaunchConfig how{};
  how.gridDimX = kernel.gridDimX;
  how.gridDimY = kernel.gridDimY;
  how.gridDimZ = kernel.gridDimZ;
  how.blockDimX = kernel.blockDimX;
  how.blockDimY = kernel.blockDimY;
  how.blockDimZ = kernel.blockDimZ;
  how.sharedMemBytes = kernel.sharedMemBytes;
  how.hStream = stream;
  how.attrs = const_cast<CUlaunchAttribute*>(attributes.data());
  how.numAttrs = attribute_count;
  if (to == nullptr || !reports_by)
    return driver().cuLaunchKernelEx(&how, function, kernel.kernelParams, kernel.extra);
  std::array<void*, max_reported_arguments> with{};
  std::copy(arguments.begin(), arguments.end(), with.begin());
  with[*reports_by] = const_cast<report*>(to);
  return driver().cuLaunchKernelEx(&how, function, with.data(), nullptr);
}

CUgraphNode program_node::add_to(CUgraph graph, const adding& how, const std::string& where) const {
  const driver_functions& d = driver();
  CUgraphNode made = nullptr;
  if (how.as_kernel && work) {
    made = add_memory_kernel(graph, *work, how.place, where);
    CUlaunchAttributeValue v{};
    v.priority = priority;
    if (priority != 0)
      check(d.cuGraphKernelNodeSetAttribute(made, CU_LAUNCH_ATTRIBUTE_PRIORITY, &v), where.c_str());
    return made;
  }
  if (type == CU_GRAPH_NODE_TYPE_KERNEL) {
    CUDA_KERNEL_NODE_PARAMS k = kernel;
    std::vector<void*> with;
    if (how.to != nullptr || how.parameter != nullptr) {
      with = arguments;
      if (how.to != nullptr) with[reports_by.value()] = const_cast<report*>(how.to);
      if (how.parameter != nullptr)
        with[preempted_by.value().argument] = const_cast<preemption*>(how.parameter);
      k.kernelParams = with.data();
      k.extra = nullptr;
    }
    return add_kernel_node(graph, k, captured, how.place, where);
  }
  CUcontext here = nullptr;
  check(d.cuCtxGetCurrent(&here), where.c_str());
  if (type == CU_GRAPH_NODE_TYPE_MEMCPY)
    check(d.cuGraphAddMemcpyNode(&made, graph, nullptr, 0, &copy, here), where.c_str());
  else
    check(d.cuGraphAddMemsetNode(&made, graph, nullptr, 0, &set, here), where.c_str());
  return made;
}

bool program_node::is_within_gpu() const noexcept {
  if (type == CU_GRAPH_NODE_TYPE_MEMSET) return !is_host(CU_MEMORYTYPE_UNIFIED, set.dst);
  return type == CU_GRAPH_NODE_TYPE_MEMCPY &&
         direction_of(copy) == copy_direction::device_to_device;
}

namespace {

/// Calls f with each address that an operation uses until f returns true. For a kernel, each word
/// of its arguments may be an address, structs included.
template <class F>
bool any_address(const program_node& node, const std::string& where, F f) {
  if (node.type == CU_GRAPH_NODE_TYPE_MEMSET) return f(node.set.dst);
  if (node.type == CU_GRAPH_NODE_TYPE_MEMCPY) {
    const auto end = [&](CUmemorytype type, CUdeviceptr at) {
      return type != CU_MEMORYTYPE_HOST && type != CU_MEMORYTYPE_ARRAY && f(at);
    };
    return end(node.copy.dstMemoryType, node.copy.dstDevice) ||
           end(node.copy.srcMemoryType, node.copy.srcDevice);
  }
  return node.any_word(where, [&](std::size_t, std::uint64_t word) { return f(word); });
}

} // namespace

void expect_memory_of(int gpu, const std::deque<program_node>& nodes, const std::string& where) {
  std::optional<int> other;
  const auto is_here = [&](CUdeviceptr at) {
    const std::optional<int> owner_gpu = gpu_of(at);
    if (owner_gpu && *owner_gpu != gpu) other = owner_gpu;
    return owner_gpu == gpu;
  };
  for (const program_node& node : nodes)
    if (any_address(node, where, is_here)) return;
  if (other)
    throw error(errc::bad_graph, where + "its memory is of GPU " + std::to_string(*other) +
                                     ", expected a graph of GPU " + std::to_string(gpu));
}

} // namespace gsched::cuda
