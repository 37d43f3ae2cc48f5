// SPDX-License-Identifier: Apache-2.0
#include "device/lane_graphs.hpp"

#include "hung_streams.hpp"
#include <gsched/cuda/error.hpp>

namespace gsched::cuda {

namespace {

CUdeviceptr address(const void* p) noexcept { return reinterpret_cast<CUdeviceptr>(p); }

CUDA_MEMCPY3D row(CUdeviceptr to, CUdeviceptr from, std::size_t bytes) noexcept {
  CUDA_MEMCPY3D c{};
  c.srcMemoryType = c.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  c.srcDevice = from;
  c.dstDevice = to;
  c.srcPitch = c.dstPitch = c.WidthInBytes = bytes;
  c.srcHeight = c.dstHeight = c.Height = c.Depth = 1;
  return c;
}

CUDA_MEMSET_NODE_PARAMS fill(CUdeviceptr to, int byte, std::size_t bytes) noexcept {
  CUDA_MEMSET_NODE_PARAMS s{};
  s.dst = to;
  s.value = static_cast<unsigned char>(byte);
  s.elementSize = 1;
  s.width = s.pitch = bytes;
  s.height = 1;
  return s;
}

} // namespace

lane_graphs::lane_graphs(int gpu, end_words& words, CUcontext primary, CUcontext place,
                         CUdeviceptr room, CUstream upload)
    : gpu_(gpu), cu_(driver()), words_(words), primary_(primary), ends_(words.take()) {
  constexpr const char* what = "graphs of a lane";
  CUgraph marker = nullptr;
  try {
    check(cu_.cuGraphCreate(&marker, 0), what);
    add_marker(cu_, marker, gsched::cuda::marker::counts, *ends_, place);
    check(cu_.cuGraphInstantiateWithFlags(&marker_, marker, 0), what);
    check(make(copy_, row(room, room + room_bytes / 2, room_bytes / 2)), what);
    check(make(set_, fill(room, 0, room_bytes)), what);
    for (const CUgraphExec e : {marker_, copy_.exec, set_.exec})
      check(cu_.cuGraphUpload(e, upload), what);
  } catch (...) {
    if (marker != nullptr) cu_.cuGraphDestroy(marker);
    destroy_all();
    throw;
  }
  cu_.cuGraphDestroy(marker);
}

lane_graphs::~lane_graphs() {
  if (!abandoned_) destroy_all();
}

void lane_graphs::destroy_all() noexcept {
  if (marker_ != nullptr) cu_.cuGraphExecDestroy(marker_);
  destroy(copy_);
  destroy(set_);
  words_.give_back(ends_);
}

void lane_graphs::destroy(one_node& g) noexcept {
  // A launch in flight runs to its end first.
  if (g.exec != nullptr) cu_.cuGraphExecDestroy(g.exec);
  if (g.graph != nullptr) cu_.cuGraphDestroy(g.graph);
  g = {};
}

CUresult lane_graphs::finish(one_node& made, one_node& into, CUresult so_far) noexcept {
  if (so_far == CUDA_SUCCESS) so_far = cu_.cuGraphInstantiateWithFlags(&made.exec, made.graph, 0);
  destroy(so_far == CUDA_SUCCESS ? into : made);
  if (so_far == CUDA_SUCCESS) into = made;
  return so_far;
}

CUresult lane_graphs::make(one_node& g, const CUDA_MEMCPY3D& c) noexcept {
  one_node made;
  CUresult r = cu_.cuGraphCreate(&made.graph, 0);
  if (r == CUDA_SUCCESS)
    r = cu_.cuGraphAddMemcpyNode(&made.node, made.graph, nullptr, 0, &c, primary_);
  return finish(made, g, r);
}

CUresult lane_graphs::make(one_node& g, const CUDA_MEMSET_NODE_PARAMS& s) noexcept {
  one_node made;
  CUresult r = cu_.cuGraphCreate(&made.graph, 0);
  if (r == CUDA_SUCCESS)
    r = cu_.cuGraphAddMemsetNode(&made.node, made.graph, nullptr, 0, &s, primary_);
  return finish(made, g, r);
}

CUresult lane_graphs::change(one_node& g, const CUDA_MEMCPY3D& c) noexcept {
  return cu_.cuGraphExecMemcpyNodeSetParams(g.exec, g.node, &c, primary_);
}
CUresult lane_graphs::change(one_node& g, const CUDA_MEMSET_NODE_PARAMS& s) noexcept {
  return cu_.cuGraphExecMemsetNodeSetParams(g.exec, g.node, &s, primary_);
}

CUresult lane_graphs::run_alone(const CUDA_MEMCPY3D& c, CUstream on) const noexcept {
  return cu_.cuMemcpyAsync(c.dstDevice, c.srcDevice, c.WidthInBytes, on);
}
CUresult lane_graphs::run_alone(const CUDA_MEMSET_NODE_PARAMS& s, CUstream on) const noexcept {
  return cu_.cuMemsetD8Async(s.dst, static_cast<unsigned char>(s.value), s.width, on);
}

template <class What>
CUresult lane_graphs::run(one_node& g, const What& what, CUstream on) noexcept {
  // The driver refuses other kinds of memory, and some other sizes of sets.
  if (change(g, what) != CUDA_SUCCESS) {
    if (hangs(gpu_)) return run_alone(what, on);
    if (const CUresult r = make(g, what); r != CUDA_SUCCESS) return r;
    ++made_anew_;
  }
  return cu_.cuGraphLaunch(g.exec, on);
}

CUresult lane_graphs::copy(void* to, const void* from, std::size_t bytes, CUstream on) noexcept {
  return bytes == 0 ? CUDA_SUCCESS : run(copy_, row(address(to), address(from), bytes), on);
}

CUresult lane_graphs::set(void* to, int byte, std::size_t bytes, CUstream on) noexcept {
  return bytes == 0 ? CUDA_SUCCESS : run(set_, fill(address(to), byte, bytes), on);
}

} // namespace gsched::cuda
