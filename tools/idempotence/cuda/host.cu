// SPDX-License-Identifier: Apache-2.0
#include "idempotence/cuda/network.hpp"
#include "idempotence/cuda/traced.cuh"

#include <gsched/cuda_tools/tracing.hpp>

#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

namespace idempotence {

namespace {

/// Runs each thread of each kernel, one after the other.
class host_visitor {
public:
  explicit host_visitor(gsched::access_trace& into) : trace_(into), words_(1u << 22) {
    sink_.records = words_.data();
    sink_.capacity = words_.size();
  }

  void copy(const char* name, void* to, const void* from, std::size_t bytes) {
    std::memcpy(to, from, bytes);
    trace_.operations.push_back(copied(name, to, from, bytes));
  }
  void set(const char* name, void* at, std::size_t bytes) {
    std::memset(at, 0, bytes);
    trace_.operations.push_back(cleared(name, at, bytes));
  }
  template <class Body, class... A>
  void kernel(const char* name, int n, A... a) {
    sink_.made = 0;
    for (int i = 0; i < n; ++i) Body::at(i, traced(a)...);
    trace_.operations.push_back(gsched::cuda::accesses_of(sink_, name));
  }

private:
  template <class T>
  [[nodiscard]] gsched::cuda::traced_ptr<T> traced(T* p) {
    return gsched::cuda::traced_ptr<T>(p, &sink_);
  }
  [[nodiscard]] static int traced(int n) { return n; }

  gsched::access_trace& trace_;
  std::vector<std::uint64_t> words_;
  gsched::cuda::trace_sink sink_;
};

} // namespace

finding trace_on_host(const options& o) {
  memory m{};
  std::array<std::vector<float>, memory::buffers> owned;
  const auto all = m.all();
  for (std::size_t b = 0; b < owned.size(); ++b) {
    for (int i = 0; i < memory::sizes[b]; ++i) owned[b].push_back(first_value(b, i));
    *all[b] = owned[b].data();
  }
  if (o.reuse) m.g = m.h;
  finding f{"traced by address on the host"};
  f.trace.model = model_name(o.reuse);
  each_operation(m, host_visitor(f.trace));
  return f;
}

} // namespace idempotence
