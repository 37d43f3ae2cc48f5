// SPDX-License-Identifier: Apache-2.0
#include <gsched/cuda/error.hpp>
#include <gsched/cuda_tools/tracing.hpp>

#include "device_buffer.hpp"
#include "owners.hpp"

#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_run_length_encode.cuh>
#include <cub/device/device_scan.cuh>
#include <cub/device/device_select.cuh>
#include <thrust/iterator/discard_iterator.h>

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace gsched::cuda {

namespace {

using word = std::uint64_t;

struct later {
  __host__ __device__ word operator()(word a, word b) const { return a < b ? b : a; }
};

constexpr unsigned threads = 256;

unsigned blocks_for(std::size_t n) { return static_cast<unsigned>((n + threads - 1) / threads); }

/// The end address of each record, with its write bit, so that reads sort before writes.
__global__ void ends_of(const word* records, word* ends, std::size_t n) {
  const std::size_t i = std::size_t{blockIdx.x} * threads + threadIdx.x;
  if (i < n) ends[i] = (records[i] & trace_sink::write_bit) | trace_sink::last_of(records[i]);
}

/// A record that starts beyond the end of all earlier ones begins a range; the previous record ends
/// one.
__global__ void find_ranges(const word* records, const word* furthest, unsigned char* begins,
                            unsigned char* ends, std::size_t n) {
  const std::size_t i = std::size_t{blockIdx.x} * threads + threadIdx.x;
  if (i >= n) return;
  const word first = (records[i] & trace_sink::write_bit) | trace_sink::first_of(records[i]);
  const bool apart = i == 0 || first > furthest[i - 1];
  begins[i] = apart;
  if (i > 0) ends[i - 1] = apart;
  if (i == n - 1) ends[i] = 1;
}

/// CUB's calling convention: the first call returns the scratch size, the second one does the work.
template <class F>
void with_scratch(F&& f, const char* where) {
  std::size_t bytes = 0;
  check(f(nullptr, bytes), where);
  const device_buffer scratch(bytes + 1, where); // not null: null would query the size again
  check(f(scratch.get(), bytes), where);
}

template <class T>
T fetched(const void* from, cudaStream_t stream, const char* where) {
  T value{};
  check(cudaMemcpyAsync(&value, from, sizeof value, cudaMemcpyDeviceToHost, stream), where);
  check(cudaStreamSynchronize(stream), where);
  return value;
}

std::vector<word> fetched(const word* from, std::size_t n, cudaStream_t stream, const char* where) {
  std::vector<word> all(n);
  check(cudaMemcpyAsync(all.data(), from, n * sizeof(word), cudaMemcpyDeviceToHost, stream), where);
  check(cudaStreamSynchronize(stream), where);
  return all;
}

/// Throws if records were lost.
void check_complete(const trace_sink& s, const std::string& name) {
  if (s.made > s.capacity)
    throw error(errc::too_small, "trace of " + name + ": " + std::to_string(s.made) +
                                     " records, expected at most " + std::to_string(s.capacity));
  if (s.refused > 0)
    throw error(errc::too_small, "trace of " + name + ": " + std::to_string(s.refused) +
                                     " accesses at addresses beyond 52 bits, expected none");
}

} // namespace

struct access_recorder::state {
  explicit state(std::size_t records)
      : capacity(records), room(records * sizeof(word), where),
        other(records * sizeof(word), where), sink(sizeof(trace_sink), where),
        count(sizeof(word), where), owned(make_stream(where)), stream(owned.get()) {
    clear();
  }

  void clear() {
    const trace_sink empty{room.as<word>(), capacity, 0, 0};
    check(cudaMemcpyAsync(sink.get(), &empty, sizeof empty, cudaMemcpyHostToDevice, stream), where);
    check(cudaStreamSynchronize(stream), where);
  }

  /// Sorts the first n records and removes duplicates, in `room`. Returns the number that remain.
  std::size_t sort(std::size_t n) {
    with_scratch(
        [&](void* scratch, std::size_t& bytes) {
          return cub::DeviceRadixSort::SortKeys(scratch, bytes, room.as<word>(), other.as<word>(),
                                                n, 0, 64, stream);
        },
        where);
    with_scratch(
        [&](void* scratch, std::size_t& bytes) {
          return cub::DeviceRunLengthEncode::Encode(
              scratch, bytes, other.as<word>(), room.as<word>(), thrust::make_discard_iterator(),
              count.as<int>(), static_cast<int>(n), stream);
        },
        where);
    return static_cast<std::size_t>(fetched<int>(count.get(), stream, where));
  }

  /// Merges n sorted records to ranges. Returns their first and last addresses; the last ones have
  /// the write bit.
  std::pair<std::vector<word>, std::vector<word>> merge(std::size_t n) {
    word* const records = room.as<word>();
    word* const furthest = other.as<word>();
    const device_buffer flags(2 * n, where);
    auto* const begins = flags.as<unsigned char>();
    const device_buffer firsts(n * sizeof(word), where);
    ends_of<<<blocks_for(n), threads, 0, stream>>>(records, furthest, n);
    check(cudaGetLastError(), where);
    with_scratch(
        [&](void* scratch, std::size_t& bytes) {
          return cub::DeviceScan::InclusiveScan(scratch, bytes, furthest, furthest, later{}, n,
                                                stream);
        },
        where);
    find_ranges<<<blocks_for(n), threads, 0, stream>>>(records, furthest, begins, begins + n, n);
    check(cudaGetLastError(), where);
    const auto select = [&](const word* from, const unsigned char* which, word* to) {
      with_scratch(
          [&](void* scratch, std::size_t& bytes) {
            return cub::DeviceSelect::Flagged(scratch, bytes, from, which, to,
                                              count.as<std::int64_t>(),
                                              static_cast<std::int64_t>(n), stream);
          },
          where);
      const auto found = fetched<std::int64_t>(count.get(), stream, where);
      return fetched(to, static_cast<std::size_t>(found), stream, where);
    };
    auto first = select(records, begins, firsts.as<word>());
    auto last = select(furthest, begins + n, records); // overwrites the records
    return {std::move(first), std::move(last)};
  }

  static constexpr const char* where = "access trace";
  std::size_t capacity;
  device_buffer room;  ///< the sink's records
  device_buffer other; ///< of equal size, for sorting
  device_buffer sink;
  device_buffer count;
  stream_owner owned;
  cudaStream_t stream; ///< owned.get()
};

access_recorder::access_recorder(std::size_t records) {
  if (records == 0 || records > most_records)
    throw error(errc::bad_option, "access trace: room for " + std::to_string(records) +
                                      " records, expected 1 to " + std::to_string(most_records));
  static_cast<void>(driver()); // throws one line where the driver or a function is missing
  state_ = std::make_unique<state>(records);
}
access_recorder::~access_recorder() = default;
access_recorder::access_recorder(access_recorder&&) noexcept = default;
access_recorder& access_recorder::operator=(access_recorder&&) noexcept = default;

trace_sink* access_recorder::sink() const noexcept { return state_->sink.as<trace_sink>(); }

void access_recorder::launch(const std::string& name, const call_shape& shape, const void* kernel,
                             void** arguments) {
  const std::string where = "trace of " + name;
  detail::allow_shared(kernel, shape, where);
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim.x = shape.cluster.x;
  cluster.val.clusterDim.y = shape.cluster.y;
  cluster.val.clusterDim.z = shape.cluster.z;
  cudaLaunchConfig_t c{};
  c.gridDim = shape.grid;
  c.blockDim = shape.block;
  c.dynamicSmemBytes = shape.dynamic_shared_bytes;
  c.stream = state_->stream;
  c.attrs = &cluster;
  c.numAttrs = shape.cluster.x * shape.cluster.y * shape.cluster.z == 1 ? 0 : 1;
  check(cudaDeviceSynchronize(), where.c_str()); // completes writes of the kernel's inputs
  check(cudaLaunchKernelExC(&c, kernel, arguments), where.c_str());
  check(cudaStreamSynchronize(state_->stream), where.c_str());
}

operation_access access_recorder::collect(const std::string& name) {
  state& s = *state_;
  const auto seen = fetched<trace_sink>(s.sink.get(), s.stream, state::where);
  s.clear();
  check_complete(seen, name);
  operation_access o;
  o.name = name;
  if (seen.made == 0) return o;
  const auto [first, last] = s.merge(s.sort(seen.made));
  std::vector<byte_range> reads, writes;
  for (std::size_t i = 0; i < first.size(); ++i) {
    const bool is_write = (last[i] & trace_sink::write_bit) != 0;
    (is_write ? writes : reads)
        .push_back({trace_sink::first_of(first[i]), last[i] & ~trace_sink::write_bit});
  }
  o.reads = access_set(std::move(reads));
  o.writes = access_set(std::move(writes));
  return o;
}

operation_access accesses_of(const trace_sink& host_sink, const std::string& name) {
  check_complete(host_sink, name);
  operation_access o;
  o.name = name;
  std::vector<byte_range> reads, writes;
  for (std::size_t i = 0; i < host_sink.made; ++i) {
    const word r = host_sink.records[i];
    ((r & trace_sink::write_bit) != 0 ? writes : reads)
        .push_back({trace_sink::first_of(r), trace_sink::last_of(r)});
  }
  o.reads = access_set(std::move(reads));
  o.writes = access_set(std::move(writes));
  return o;
}

} // namespace gsched::cuda
