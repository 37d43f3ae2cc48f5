// SPDX-License-Identifier: Apache-2.0
#include "cuda/graph/program_samples.hpp"
#include "cuda/needs_gpu.hpp"

#include <gsched/cuda/driver.hpp>
#include <gsched/cuda/error.hpp>
#include <gsched/cuda/partition/partitions.hpp>
#include <gsched/cuda/program.hpp>

#include <doctest/doctest.h>

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace gsched::testing {
namespace {

using bytes = std::vector<std::uint8_t>;

struct graph_freed {
  void operator()(cudaGraph_t g) const noexcept { cudaGraphDestroy(g); }
};
using owned_graph = std::unique_ptr<std::remove_pointer_t<cudaGraph_t>, graph_freed>;

template <class... Parts>
std::string text(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return std::move(out).str();
}

/// Device memory, and a chain of sets and copies of it, which are applied to bytes of the host too.
class work_chain {
public:
  explicit work_chain(std::size_t size) : host_(size), written_by_(size) {
    cuda::check(cudaMalloc(&device_, size), "test memory");
    for (std::size_t i = 0; i < size; ++i) host_[i] = static_cast<std::uint8_t>(i * 131 + i / 251);
    first_ = host_;
    cudaGraph_t g = nullptr;
    cuda::check(cudaGraphCreate(&g, 0), "graph");
    graph_.reset(g);
  }
  ~work_chain() { cudaFree(device_); }
  work_chain(const work_chain&) = delete;
  work_chain& operator=(const work_chain&) = delete;

  /// `width`: elements. Returns false if the driver does not accept the node.
  bool set(std::size_t at, unsigned element, std::uint32_t value, std::size_t width,
           std::size_t height, std::size_t pitch) {
    cudaMemsetParams p{};
    p.dst = device_ + at;
    p.elementSize = element;
    p.value = value;
    p.width = width;
    p.height = height;
    p.pitch = pitch;
    cudaGraphNode_t node = nullptr;
    if (cudaGraphAddMemsetNode(&node, graph_.get(), &last_, last_ == nullptr ? 0 : 1, &p) !=
        cudaSuccess) {
      static_cast<void>(cudaGetLastError());
      return false;
    }
    last_ = node;
    work_.push_back(text("a set at ", at, " of ", height, " rows of ", width, " elements of ",
                         element, ", pitch ", pitch, ", to ", value));
    for (std::size_t y = 0; y < height; ++y)
      for (std::size_t x = 0; x < width * element; ++x)
        write(at + y * pitch + x, static_cast<std::uint8_t>(value >> (8 * (x % element))));
    return true;
  }
  struct end {
    std::size_t at = 0, pitch = 0, rows = 0; ///< rows: of a slice
  };
  void copy(const end& to, const end& from, const cudaExtent& size) {
    cudaMemcpy3DParms p{};
    p.dstPtr = make_cudaPitchedPtr(device_ + to.at, to.pitch, size.width, to.rows);
    p.srcPtr = make_cudaPitchedPtr(device_ + from.at, from.pitch, size.width, from.rows);
    p.extent = size;
    p.kind = cudaMemcpyDeviceToDevice;
    cudaGraphNode_t node = nullptr;
    cuda::check(cudaGraphAddMemcpyNode(&node, graph_.get(), &last_, last_ == nullptr ? 0 : 1, &p),
                "node");
    last_ = node;
    const auto at = [](const end& e) {
      return text(e.at, " (pitch ", e.pitch, ", ", e.rows, " rows)");
    };
    work_.push_back(text("a copy of ", size.width, " x ", size.height, " x ", size.depth, " from ",
                         at(from), " to ", at(to)));
    const auto row = [](const end& e, std::size_t z, std::size_t y) {
      return e.at + (z * e.rows + y) * e.pitch;
    };
    for (std::size_t z = 0; z < size.depth; ++z)
      for (std::size_t y = 0; y < size.height; ++y)
        for (std::size_t x = 0; x < size.width; ++x)
          write(row(to, z, y) + x, host_[row(from, z, y) + x]);
  }

  [[nodiscard]] cudaGraph_t graph() const noexcept { return graph_.get(); }
  /// Where `now` differs from what the chain writes; empty if nowhere.
  [[nodiscard]] std::string difference(const bytes& now) const {
    const auto [at, expected] = std::mismatch(now.begin(), now.end(), host_.begin());
    if (at == now.end()) return "";
    const auto i = static_cast<std::size_t>(at - now.begin());
    const std::size_t by = written_by_[i];
    std::size_t count = 0;
    for (std::size_t k = i; k < now.size(); ++k) count += now[k] != host_[k];
    return text("byte ", i, " is ", int{*at}, " and not ", int{*expected}, ", as are ", count - 1,
                " others; it is of ", by == 0 ? "no node" : text("node ", by, ": ", work_[by - 1]));
  }
  /// The memory after a run of a graph, which starts from the same bytes each time.
  [[nodiscard]] bytes after(runner& on, cudaGraph_t g) const {
    cuda::check(cudaMemcpy(device_, first_.data(), first_.size(), cudaMemcpyHostToDevice), "reset");
    cuda::check(cudaDeviceSynchronize(), "reset"); // it may return before the bytes are there
    on.run(g);
    bytes now(first_.size());
    cuda::check(cudaMemcpy(now.data(), device_, now.size(), cudaMemcpyDeviceToHost), "result");
    return now;
  }

private:
  void write(std::size_t at, std::uint8_t value) {
    host_[at] = value;
    written_by_[at] = work_.size();
  }

  std::uint8_t* device_ = nullptr;
  bytes first_, host_;
  std::vector<std::size_t> written_by_; ///< the last node that writes a byte, from 1; 0: none
  std::vector<std::string> work_;       ///< what each node does
  owned_graph graph_;
  cudaGraphNode_t last_ = nullptr;
};

std::vector<CUgraphNode> nodes_of(CUgraph g) {
  std::size_t count = 0;
  cuda::check(cuda::driver().cuGraphGetNodes(g, nullptr, &count), "nodes");
  std::vector<CUgraphNode> nodes(count);
  cuda::check(cuda::driver().cuGraphGetNodes(g, nodes.data(), &count), "nodes");
  return nodes;
}

/// The number of nodes of each type.
std::map<CUgraphNodeType, int> types_of(CUgraph g) {
  std::map<CUgraphNodeType, int> all;
  for (const CUgraphNode node : nodes_of(g)) {
    CUgraphNodeType type{};
    cuda::check(cuda::driver().cuGraphNodeGetType(node, &type), "node");
    ++all[type];
  }
  return all;
}

/// Runs the whole chain as it is, and as a range with and without its nodes kept.
void check_chain(runner& on, const work_chain& chain, CUcontext place) {
  REQUIRE(chain.difference(chain.after(on, chain.graph())) == "");
  const cuda::program p(chain.graph(), named("chain"));
  for (const bool keep : {false, true}) {
    CAPTURE(keep);
    const owned_graph range(
        p.make_range(0, p.host().size(), {.place = place, .keep_memory_nodes = keep}));
    CHECK(chain.difference(chain.after(on, range.get())) == "");
    CHECK(types_of(range.get()).contains(CU_GRAPH_NODE_TYPE_KERNEL) == !keep);
  }
}

TEST_CASE("kernels in place of sets and copies write the same bytes") {
  GSCHED_NEEDS_GPU();
  constexpr std::size_t half = std::size_t{1} << 15;
  runner on;
  const cuda::partition own(0, sm_count{8});
  for (unsigned seed = 0; seed < 40; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    const auto up_to = [&](std::size_t most) {
      return std::uniform_int_distribution<std::size_t>(0, most)(random);
    };
    work_chain chain(2 * half);
    for (int i = 0; i < 8; ++i)
      if (up_to(1) == 0) { // up to 20 rows of at most 1200 bytes, anywhere
        const auto element = 1u << up_to(2);
        const std::size_t width = 1 + up_to(1000 / element);
        const std::size_t pitch = (width + up_to(200 / element)) * element;
        const std::size_t at = up_to((2 * half - 20 * 1200) / element - 1) * element;
        const auto value = static_cast<std::uint32_t>(random()); // a larger one than the element
        const std::uint32_t most = 0xffff'ffffu >> (32 - 8 * element); // is not a captured one
        REQUIRE(chain.set(at, element, value & most, width, 1 + up_to(19), pitch));
      } else { // up to 3 slices of 8 rows of at most 1200 bytes, from one half to the other
        const cudaExtent size{1 + up_to(999), 1 + up_to(5), 1 + up_to(2)};
        const auto side = [&](std::size_t from) {
          return work_chain::end{from + up_to(half - 3 * 8 * 1200), size.width + up_to(200),
                                 size.height + up_to(2)};
        };
        const bool up = up_to(1) == 0;
        const work_chain::end to = side(up ? half : 0);
        chain.copy(to, side(up ? 0 : half), size);
      }
    check_chain(on, chain, seed % 2 == 0 ? nullptr : own.context());
  }
}

TEST_CASE("kernels in place of large sets and copies write all bytes, and no others") {
  GSCHED_NEEDS_GPU();
  constexpr std::size_t half = std::size_t{24} << 20; // more than all threads do at once
  runner on;
  work_chain chain(2 * half);
  REQUIRE(chain.set(3, 1, 0x5c, half - 7, 1, half));
  chain.copy({half + 5, half - 9, 1}, {2, half - 9, 1}, {half - 9, 1, 1});
  REQUIRE(chain.set(half + 16, 4, 0x89abcdef, 1000, 5000, 4096));
  check_chain(on, chain, nullptr);
}

TEST_CASE("sets without rows or columns do what the driver does") {
  GSCHED_NEEDS_GPU();
  runner on;
  for (const auto& [width, height] : {std::pair{100u, 0u}, {0u, 1u}, {0u, 3u}}) {
    CAPTURE(width);
    work_chain chain(4096);
    REQUIRE(chain.set(10, 1, 1, 20, 1, 20));
    if (!chain.set(1000, 1, 7, width, height, 128)) {
      MESSAGE("refused by the driver");
      continue;
    }
    const cuda::program p(chain.graph(), named("nothing"));
    const owned_graph range(p.make_range(0, p.host().size(), {}));
    CHECK(chain.after(on, range.get()) == chain.after(on, chain.graph()));
  }
}

TEST_CASE("copies from and to the host stay nodes, and all else runs in the given context") {
  GSCHED_NEEDS_GPU();
  constexpr std::size_t size = 4096;
  std::uint8_t* device = nullptr;
  std::uint8_t* pinned = nullptr;
  bytes pageable(size);
  cuda::check(cudaMalloc(&device, 2 * size), "memory");
  cuda::check(cudaMallocHost(&pinned, size), "memory");
  cudaGraph_t made = nullptr;
  cuda::check(cudaGraphCreate(&made, 0), "graph");
  const owned_graph g(made);
  cudaGraphNode_t last = nullptr;
  const auto copy = [&](void* to, const void* from, cudaMemcpyKind kind) {
    const cudaGraphNode_t after = last;
    cuda::check(cudaGraphAddMemcpyNode1D(&last, made, &after, after == nullptr ? 0 : 1, to, from,
                                         size, kind),
                "node");
  };
  copy(device, pinned, cudaMemcpyHostToDevice);
  copy(device + size, pageable.data(), cudaMemcpyHostToDevice);
  copy(device + size, device, cudaMemcpyDeviceToDevice);
  copy(pinned, device + size, cudaMemcpyDeviceToHost);
  cudaMemsetParams p{};
  p.dst = device;
  p.elementSize = 1;
  p.width = p.pitch = size;
  p.height = 1;
  const cudaGraphNode_t after = last;
  cuda::check(cudaGraphAddMemsetNode(&last, made, &after, 1, &p), "node");
  const cuda::program of(made, named("copies"));

  using types = std::map<CUgraphNodeType, int>;
  const cuda::partition own(0, sm_count{8});
  for (const CUcontext place : {CUcontext{}, own.context()}) {
    const owned_graph range(of.make_range(0, 5, {.place = place}));
    CHECK(types_of(range.get()) ==
          types{{CU_GRAPH_NODE_TYPE_KERNEL, 2}, {CU_GRAPH_NODE_TYPE_MEMCPY, 3}});
    const owned_graph kept(of.make_range(0, 5, {.place = place, .keep_memory_nodes = true}));
    CHECK(types_of(kept.get()) ==
          types{{CU_GRAPH_NODE_TYPE_MEMCPY, 4}, {CU_GRAPH_NODE_TYPE_MEMSET, 1}});
    if (place == nullptr) continue;
    // A range without copies of the host is a graph of kernels of that context.
    for (const auto& [first, to] : {std::pair{2u, 3u}, {4u, 5u}}) {
      const owned_graph within(of.make_range(first, to, {.place = place}));
      for (const CUgraphNode node : nodes_of(within.get())) {
        CUDA_KERNEL_NODE_PARAMS k{};
        cuda::check(cuda::driver().cuGraphKernelNodeGetParams(node, &k), "node");
        CHECK(k.ctx == place);
      }
    }
  }
  cudaFree(device);
  cudaFreeHost(pinned);
}

} // namespace
} // namespace gsched::testing
