// SPDX-License-Identifier: Apache-2.0
#include "built.hpp"
#include "text.hpp"

#include <gsched/core/error.hpp>
#include <gsched/cuda/driver.hpp>
#include <gsched/cuda/error.hpp>

#include <algorithm>
#include <cstring>
#include <utility>

namespace work_graph {

using gsched::cuda::check;

namespace {

constexpr auto serial = cudaStreamNonBlocking;

void CUDART_CB run_on_host(void* given) {
  const auto& w = *static_cast<const node_work*>(given);
  const auto load = [](const std::uint32_t* from) {
    std::uint32_t x = 0;
    std::memcpy(&x, from, sizeof x);
    return x;
  };
  const std::uint32_t n = counted(w.words);
  for (std::uint32_t j = 0; j < n; ++j) {
    std::uint32_t* const at = w.own + place(w.words, j);
    *at = finished(gathered(load(at), j, w.reads, w.count, load), j, w.salt, 1);
  }
}

cudaMemcpyKind direction(kind k) noexcept {
  return k == kind::copy        ? cudaMemcpyDeviceToDevice
         : k == kind::to_device ? cudaMemcpyHostToDevice
                                : cudaMemcpyDeviceToHost;
}

cudaGraphEdgeData data_of(const edge& e) noexcept {
  cudaGraphEdgeData d{};
  if (e.how == order::full) return d;
  d.type = cudaGraphDependencyTypeProgrammatic;
  d.from_port =
      e.at_start ? cudaGraphKernelNodePortLaunchCompletion : cudaGraphKernelNodePortProgrammatic;
  return d;
}

bool is_plain(const node& n) noexcept {
  return std::all_of(n.after.begin(), n.after.end(),
                     [](const edge& e) { return e.how == order::full; });
}

struct owned_stream {
  cudaStream_t stream = nullptr;
  owned_stream() { check(cudaStreamCreateWithFlags(&stream, serial), "stream"); }
  ~owned_stream() { cudaStreamDestroy(stream); }
  owned_stream(const owned_stream&) = delete;
  owned_stream& operator=(const owned_stream&) = delete;
};

} // namespace

gpu_facts prepare_gpu() {
  int gpu = 0;
  check(cudaGetDevice(&gpu), "GPU");
  const auto attribute = [&](cudaDeviceAttr which) {
    int value = 0;
    check(cudaDeviceGetAttribute(&value, which, gpu), "GPU");
    return value;
  };
  gpu_facts f;
  f.sms = static_cast<unsigned>(attribute(cudaDevAttrMultiProcessorCount));
  f.full_shared_bytes =
      static_cast<std::size_t>(attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin));
  f.cycles_per_us = attribute(cudaDevAttrClockRate) / 1e3;
  check(cudaDeviceGetStreamPriorityRange(&f.least_priority, &f.greatest_priority), "priorities");
  node together;
  together.cooperative = true;
  for (const void* const kernel : {kernel_of({}), kernel_of(together)})
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(f.full_shared_bytes)),
          "shared memory");
  return f;
}

memory_pool::memory_pool(std::size_t device_bytes, std::size_t host_bytes) {
  void* device = nullptr;
  void* host = nullptr;
  check(cudaMalloc(&device, device_bytes), "device memory");
  check(cudaHostAlloc(&host, host_bytes, cudaHostAllocMapped), "pinned memory");
  device_ = {static_cast<std::byte*>(device), device_bytes};
  host_ = {static_cast<std::byte*>(host), host_bytes};
}

memory_pool::~memory_pool() {
  cudaFree(device_.data());
  cudaFreeHost(host_.data());
}

memory_pool::piece memory_pool::take(const layout& l) {
  if (l.device_bytes > device_.size() - device_used_ || l.host_bytes > host_.size() - host_used_)
    throw gsched::error(gsched::errc::too_small,
                        "memory for graphs: " + std::to_string(device_used_ + l.device_bytes) +
                            " and " + std::to_string(host_used_ + l.host_bytes) +
                            " bytes, expected at most " + std::to_string(device_.size()) + " and " +
                            std::to_string(host_.size()));
  const piece p{device_.subspan(device_used_, l.device_bytes),
                host_.subspan(host_used_, l.host_bytes)};
  device_used_ += l.device_bytes;
  host_used_ += l.host_bytes;
  return p;
}

built_graph::built_graph(const graph& g, const gpu_facts& gpu, memory_pool& pool)
    : graph_of_(g), gpu_(gpu), layout_(g), memory_(pool.take(layout_)) {
  if (g.captured) {
    graph_ = capture();
    return;
  }
  std::vector<cudaGraphNode_t> made(g.nodes.size());
  graph_ = build_level(none, made);
}

built_graph::~built_graph() {
  if (graph_ != nullptr) cudaGraphDestroy(graph_);
}

built_graph::built_graph(built_graph&& o) noexcept
    : graph_of_(std::move(o.graph_of_)), gpu_(o.gpu_), layout_(std::move(o.layout_)),
      memory_(o.memory_), host_works_(std::move(o.host_works_)),
      graph_(std::exchange(o.graph_, nullptr)) {}

void built_graph::reset() {
  std::vector<std::byte> first(memory_.device.size());
  fill_initially(graph_of_, first, 0);
  if (!first.empty())
    check(cudaMemcpy(memory_.device.data(), first.data(), first.size(), cudaMemcpyHostToDevice),
          "memory of a graph");
  fill_initially(graph_of_, memory_.host, 1);
}

built_graph::contents built_graph::read() const {
  contents c{std::vector<std::byte>(memory_.device.size()),
             {memory_.host.begin(), memory_.host.end()}};
  if (!c.device.empty())
    check(
        cudaMemcpy(c.device.data(), memory_.device.data(), c.device.size(), cudaMemcpyDeviceToHost),
        "memory of a graph");
  return c;
}

std::vector<gsched::duration> built_graph::durations() const {
  std::vector<gsched::duration> all;
  for (const node& n : graph_of_.nodes)
    if (is_operation(n.what)) all.push_back(gsched::from_us(expected_us(n)));
  return all;
}

std::string built_graph::where(std::uint32_t i) const {
  return "graph " + graph_of_.name + ", node " + std::to_string(i) + " (" +
         std::string(kind_names[static_cast<std::size_t>(graph_of_.nodes[i].what)]) + ")";
}

std::byte* built_graph::at(std::uint32_t i) const noexcept {
  return (on_host(graph_of_.nodes[i].what) ? memory_.host : memory_.device).data() + layout_.own[i];
}

std::byte* built_graph::source_of(std::uint32_t i) const noexcept {
  const node& n = graph_of_.nodes[i];
  return n.reads.empty() ? memory_.host.data() + layout_.extra[i] : at(n.reads.front());
}

node_work built_graph::work_of(std::uint32_t i) const {
  const node& n = graph_of_.nodes[i];
  node_work w;
  w.own = reinterpret_cast<std::uint32_t*>(at(i));
  if (n.cooperative)
    w.between = reinterpret_cast<std::uint32_t*>(memory_.device.data() + layout_.extra[i]);
  w.cycles = static_cast<std::uint64_t>(n.us * gpu_.cycles_per_us);
  w.words = words_of(n);
  w.salt = n.salt;
  w.shared_words = static_cast<std::uint32_t>(shared_of(n) / sizeof(std::uint32_t));
  w.waits = waits_inside(n);
  w.triggers = n.triggers;
  for (const std::uint32_t r : n.reads)
    w.reads[w.count++] = {reinterpret_cast<const std::uint32_t*>(at(r)),
                          words_of(graph_of_.nodes[r])};
  return w;
}

std::size_t built_graph::shared_of(const node& n) const noexcept {
  return gpu_.full_shared_bytes * n.shared / 400 * 4;
}

int built_graph::priority_of(const node& n) const noexcept {
  return std::max(gpu_.least_priority - static_cast<int>(n.priority), gpu_.greatest_priority);
}

unsigned built_graph::blocks_of(const node& n) const {
  int fit = 0;
  check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&fit, kernel_of(n),
                                                      static_cast<int>(n.threads), shared_of(n)),
        "occupancy");
  const unsigned most = static_cast<unsigned>(fit) * gpu_.sms;
  unsigned blocks = n.fill == 0 ? n.blocks : std::max(most * n.fill / 100, 1u);
  if (n.cooperative) blocks = std::min(blocks, std::max(most, 1u));
  return std::max(blocks / n.cluster, 1u) * n.cluster;
}

void built_graph::set_attributes(cudaGraphNode_t to, const node& n) const {
  const auto set = [&](cudaLaunchAttributeID which, const cudaLaunchAttributeValue& value) {
    check(cudaGraphKernelNodeSetAttribute(to, which, &value), "kernel's attributes");
  };
  cudaLaunchAttributeValue value{};
  value.priority = priority_of(n);
  if (n.priority > 0) set(cudaLaunchAttributePriority, value);
  value = {};
  value.cooperative = 1;
  if (n.cooperative) set(cudaLaunchAttributeCooperative, value);
  value = {};
  value.clusterDim.x = n.cluster;
  value.clusterDim.y = value.clusterDim.z = 1;
  if (n.cluster > 1) set(cudaLaunchAttributeClusterDimension, value);
}

cudaGraphNode_t built_graph::add_node(cudaGraph_t to, std::uint32_t i,
                                      std::span<const cudaGraphNode_t> after,
                                      std::vector<cudaGraphNode_t>& made) {
  const node& n = graph_of_.nodes[i];
  const std::string what = where(i);
  cudaGraphNode_t added = nullptr;
  switch (n.what) {
  case kind::kernel: {
    node_work w = work_of(i);
    void* arguments[] = {&w};
    cudaKernelNodeParams k{};
    k.func = const_cast<void*>(kernel_of(n));
    k.gridDim = dim3(blocks_of(n));
    k.blockDim = dim3(n.threads);
    k.sharedMemBytes = static_cast<unsigned>(shared_of(n));
    k.kernelParams = arguments;
    check(cudaGraphAddKernelNode(&added, to, after.data(), after.size(), &k), what.c_str());
    set_attributes(added, n);
    break;
  }
  case kind::copy:
  case kind::to_device:
  case kind::to_host:
    check(cudaGraphAddMemcpyNode1D(&added, to, after.data(), after.size(), at(i), source_of(i),
                                   n.bytes, direction(n.what)),
          what.c_str());
    break;
  case kind::set: {
    cudaMemsetParams s{};
    s.dst = at(i);
    s.pitch = n.set.height > 1 ? n.set.pitch : n.set.width * n.set.element;
    s.value = n.set.value;
    s.elementSize = n.set.element;
    s.width = n.set.width;
    s.height = n.set.height;
    check(cudaGraphAddMemsetNode(&added, to, after.data(), after.size(), &s), what.c_str());
    break;
  }
  case kind::host: {
    host_works_.push_back(std::make_unique<node_work>(work_of(i)));
    cudaHostNodeParams h{};
    h.fn = run_on_host;
    h.userData = host_works_.back().get();
    check(cudaGraphAddHostNode(&added, to, after.data(), after.size(), &h), what.c_str());
    break;
  }
  case kind::empty:
    check(cudaGraphAddEmptyNode(&added, to, after.data(), after.size()), what.c_str());
    break;
  case kind::child: {
    const cudaGraph_t child = build_level(i, made);
    const cudaError_t e = cudaGraphAddChildGraphNode(&added, to, after.data(), after.size(), child);
    cudaGraphDestroy(child);
    check(e, what.c_str());
    break;
  }
  }
  return added;
}

cudaGraph_t built_graph::build_level(std::uint32_t parent, std::vector<cudaGraphNode_t>& made) {
  cudaGraph_t level = nullptr;
  check(cudaGraphCreate(&level, 0), "graph");
  try {
    for (std::uint32_t i = parent == none ? 0 : parent + 1; i < graph_of_.nodes.size(); ++i) {
      const node& n = graph_of_.nodes[i];
      if (n.parent != parent) continue;
      std::vector<cudaGraphNode_t> from;
      std::vector<cudaGraphEdgeData> data;
      for (const edge& e : n.after) {
        from.push_back(made[e.from]);
        data.push_back(data_of(e));
      }
      if (is_plain(n)) {
        made[i] = add_node(level, i, from, made);
        continue;
      }
      made[i] = add_node(level, i, {}, made);
      const std::vector<cudaGraphNode_t> to(from.size(), made[i]);
      check(cudaGraphAddDependencies(level, from.data(), to.data(), data.data(), from.size()),
            where(i).c_str());
    }
  } catch (...) {
    cudaGraphDestroy(level);
    throw;
  }
  return level;
}

void built_graph::launch(std::uint32_t i, cudaStream_t on) {
  const node& n = graph_of_.nodes[i];
  const std::string what = where(i);
  const gsched::cuda::driver_functions& cu = gsched::cuda::driver();
  switch (n.what) {
  case kind::kernel: {
    node_work w = work_of(i);
    void* arguments[] = {&w};
    cudaLaunchAttribute attributes[3] = {};
    cudaLaunchConfig_t how{};
    how.gridDim = dim3(blocks_of(n));
    how.blockDim = dim3(n.threads);
    how.dynamicSmemBytes = shared_of(n);
    how.stream = on;
    how.attrs = attributes;
    attributes[how.numAttrs].id = cudaLaunchAttributePriority;
    attributes[how.numAttrs++].val.priority = priority_of(n);
    if (n.cooperative) {
      attributes[how.numAttrs].id = cudaLaunchAttributeCooperative;
      attributes[how.numAttrs++].val.cooperative = 1;
    }
    if (n.cluster > 1) {
      attributes[how.numAttrs].id = cudaLaunchAttributeClusterDimension;
      attributes[how.numAttrs].val.clusterDim.x = n.cluster;
      attributes[how.numAttrs].val.clusterDim.y = 1;
      attributes[how.numAttrs++].val.clusterDim.z = 1;
    }
    check(cudaLaunchKernelExC(&how, kernel_of(n), arguments), what.c_str());
    break;
  }
  case kind::copy:
  case kind::to_device:
  case kind::to_host:
    check(cudaMemcpyAsync(at(i), source_of(i), n.bytes, direction(n.what), on), what.c_str());
    break;
  case kind::set: {
    const auto to = reinterpret_cast<CUdeviceptr>(at(i));
    const set_shape& s = n.set;
    const auto low = static_cast<unsigned char>(s.value);
    const auto half = static_cast<unsigned short>(s.value);
    const bool rows = s.height > 1;
    const CUresult r =
        s.element == 1   ? rows ? cu.cuMemsetD2D8Async(to, s.pitch, low, s.width, s.height, on)
                                : cu.cuMemsetD8Async(to, low, s.width, on)
          : s.element == 2 ? rows ? cu.cuMemsetD2D16Async(to, s.pitch, half, s.width, s.height, on)
                                  : cu.cuMemsetD16Async(to, half, s.width, on)
          : rows ? cu.cuMemsetD2D32Async(to, s.pitch, s.value, s.width, s.height, on)
                         : cu.cuMemsetD32Async(to, s.value, s.width, on);
    check(r, what.c_str());
    break;
  }
  case kind::host:
    host_works_.push_back(std::make_unique<node_work>(work_of(i)));
    check(cudaLaunchHostFunc(on, run_on_host, host_works_.back().get()), what.c_str());
    break;
  case kind::empty:
  case kind::child: break; // a graph that is captured has none
  }
}

cudaGraph_t built_graph::capture() {
  const owned_stream on;
  const std::string what = "capture of graph " + graph_of_.name;
  check(cudaStreamBeginCapture(on.stream, cudaStreamCaptureModeThreadLocal), what.c_str());
  std::vector<cudaGraphNode_t> made(graph_of_.nodes.size());
  std::vector<bool> ends(graph_of_.nodes.size(), true);
  const auto stand_behind = [&](std::vector<cudaGraphNode_t>& from,
                                const std::vector<cudaGraphEdgeData>& data) {
    check(cudaStreamUpdateCaptureDependencies(on.stream, from.data(), data.data(), from.size(),
                                              cudaStreamSetCaptureDependencies),
          what.c_str());
  };
  try {
    for (std::uint32_t i = 0; i < graph_of_.nodes.size(); ++i) {
      std::vector<cudaGraphNode_t> from;
      std::vector<cudaGraphEdgeData> data;
      for (const edge& e : graph_of_.nodes[i].after) {
        from.push_back(made[e.from]);
        data.push_back(data_of(e));
        if (e.how != order::overlaps) ends[e.from] = false;
      }
      stand_behind(from, data);
      launch(i, on.stream);
      cudaStreamCaptureStatus status{};
      const cudaGraphNode_t* latest = nullptr;
      const cudaGraphEdgeData* latest_data = nullptr;
      std::size_t count = 0;
      check(cudaStreamGetCaptureInfo(on.stream, &status, nullptr, nullptr, &latest, &latest_data,
                                     &count),
            what.c_str());
      if (status != cudaStreamCaptureStatusActive || count != 1)
        throw gsched::error(gsched::errc::device_failed, where(i) + ": " + std::to_string(count) +
                                                             " nodes were captured, expected 1");
      made[i] = latest[0];
    }
    std::vector<cudaGraphNode_t> last;
    for (std::uint32_t i = 0; i < made.size(); ++i)
      if (ends[i]) last.push_back(made[i]);
    stand_behind(last, std::vector<cudaGraphEdgeData>(last.size()));
  } catch (...) {
    cudaGraph_t half_made = nullptr;
    if (cudaStreamEndCapture(on.stream, &half_made) == cudaSuccess && half_made != nullptr)
      cudaGraphDestroy(half_made);
    static_cast<void>(cudaGetLastError());
    throw;
  }
  cudaGraph_t captured = nullptr;
  check(cudaStreamEndCapture(on.stream, &captured), what.c_str());
  return captured;
}

std::string difference(const graph& g, const built_graph::contents& found, const oracle& expected) {
  const layout& at = expected.where();
  for (std::uint32_t i = 0; i < g.nodes.size(); ++i) {
    const node& n = g.nodes[i];
    if (!has_buffer(n.what)) continue;
    const std::byte* const f = (on_host(n.what) ? found.host : found.device).data() + at.own[i];
    const std::byte* const e =
        (on_host(n.what) ? expected.host() : expected.device()).data() + at.own[i];
    for (std::uint32_t b = 0; b < n.bytes; ++b)
      if (f[b] != e[b])
        return "graph " + g.name + ": the buffer of node " + std::to_string(i) + " (" +
               std::string(kind_names[static_cast<std::size_t>(n.what)]) + ") differs from byte " +
               std::to_string(b) + " on";
  }
  const auto same = [](const std::vector<std::byte>& a, std::span<const std::byte> b) {
    return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin());
  };
  if (!same(found.device, expected.device()) || !same(found.host, expected.host()))
    return "graph " + g.name + ": memory between the nodes' buffers differs";
  return {};
}

} // namespace work_graph
