// SPDX-License-Identifier: Apache-2.0
#include "padding/subjects.hpp"

#include "padding/functions.cuh"
#include "padding/pool.cuh"
#include "padding/timed.cuh"

#include <gsched/core/error.hpp>
#include <gsched/cuda/colocate/pad.cuh>
#include <gsched/cuda/error.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <functional>
#include <utility>

namespace padding {

namespace cuda = gsched::cuda;

namespace {

using reals = cuda::pad_functions<timed<gemm<64>>, timed<gemm<32>>, timed<copy<4>>, timed<axpy<4>>,
                                  timed<softmax<256>>, timed<row_mean<256>>, timed<convolve<1>>>;
using others = cuda::pad_functions<gemm<64>, gemm<32>, copy<1>, copy<4>, copy<16>, copy<32>,
                                   copy<64>, axpy<1>, axpy<4>, softmax<128>, softmax<256>,
                                   row_mean<128>, row_mean<256>, convolve<1>, convolve<4>>;
using family = cuda::basic_pad_family<reals, others>;
using work = cuda::pad_work<family>;

template <class List>
struct pointers;
template <class... F>
struct pointers<cuda::pad_functions<F...>> {
  static const void* kernel() { return reinterpret_cast<const void*>(&pointers_of<F...>); }
};

/// The time of a launch alone.
struct nothing {
  static constexpr std::uint32_t threads = 32;
  __device__ __forceinline__ void operator()(const cuda::pad_block&) const {}
};

using add_node = std::function<cudaGraphNode_t(cudaGraph_t, subjects::after, stamps*)>;

struct real_entry {
  std::function<work(stamps*)> make;
  add_node plain, pointer;
};
struct corunner_entry {
  work all;
  std::function<cudaGraphNode_t(cudaGraph_t, subjects::after)> plain;
};

} // namespace

struct subjects::state {
  explicit state(const cuda::gpu& on) : pads(on) {
    called_function* to = nullptr;
    check(cudaMalloc(&to, sizeof(functions)));
    cuda::pad_graph once;
    const cuda::pad_call call{pointers<reals>::kernel(), 1, 1, 0, &to};
    once.make(call);
    if (const std::error_code e = once.launch(nullptr, call)) cuda::fail(e, "function pointers");
    check(cudaDeviceSynchronize());
    check(cudaMemcpy(functions.data(), to, sizeof(functions), cudaMemcpyDeviceToHost));
    check(cudaFree(to));
    gap = cuda::measure_pad_call(cuda::plain_kernel<nothing>({}, {1, 1, 1}).call());
  }

  template <class F>
  void add_real(const F& f, subject s) {
    const auto with = [f](stamps* to) { return timed<F>{f, to}; };
    real_entry e;
    const auto part = [with, f](stamps* to) { return work(with(to), f.grid(), F::shared_bytes()); };
    const std::uint32_t registers = pads.fitted(part(memory.scratch())).registers();
    e.make = [part, registers](stamps* to) { return part(to).with_registers(registers); };
    e.plain = [with, f](cudaGraph_t g, after a, stamps* to) {
      const cuda::plain_kernel<timed<F>> k(with(to), f.grid(), F::shared_bytes());
      return cuda::add_pad_node(g, a, k.call());
    };
    const called_function function = functions[reals::template place<timed<F>>()];
    e.pointer = [with, f, function](cudaGraph_t g, after a, stamps* to) {
      pointer_parameters<family::bytes> p{};
      const timed<F> body = with(to);
      std::memcpy(p.arguments, &body, sizeof(body));
      p.function = function;
      p.grid = f.grid();
      const void* const kernel = reinterpret_cast<const void*>(&pointer_kernel<family::bytes>);
      return cuda::add_pad_node(g, a,
                                {kernel, static_cast<std::uint32_t>(f.grid().volume()), F::threads,
                                 F::shared_bytes(), &p});
    };
    s.bytes = f.bytes();
    const work fit = e.make(memory.scratch());
    const cuda::plain_kernel<timed<F>> alone(with(memory.scratch()), f.grid(), F::shared_bytes());
    s.plain = gsched::duration::max();
    for (int i = 0; i < 3; ++i) { // alternately, and the best of each: clocks rise
      const gsched::kernel_variant now = pads.measure(fit);
      if (i == 0 || now.kernel_time < s.facts.kernel_time) s.facts = now;
      s.plain = std::min(s.plain, cuda::measure_pad_call(alone.call()));
    }
    real.push_back(std::move(e));
    real_facts.push_back(std::move(s));
  }

  template <class F>
  void add_corunner(const F& f, subject s) {
    corunner_entry e{work(f, f.grid(), F::shared_bytes()), [f](cudaGraph_t g, after a) {
                       const cuda::plain_kernel<F> k(f, f.grid(), F::shared_bytes());
                       return cuda::add_pad_node(g, a, k.call());
                     }};
    s.bytes = f.bytes();
    s.facts = pads.measure(e.all);
    corunners.push_back(std::move(e));
    corunner_facts.push_back(std::move(s));
  }

  template <std::uint32_t Tile>
  [[nodiscard]] gemm<Tile> make_gemm(std::uint32_t n, bool r) const {
    return {memory.a(), memory.b(), memory.out(r), n};
  }
  template <std::uint32_t Items>
  [[nodiscard]] copy<Items> make_copy(std::uint32_t kib, bool r) const {
    return {reinterpret_cast<const float4*>(memory.a()), reinterpret_cast<float4*>(memory.out(r)),
            kib * 64};
  }
  template <std::uint32_t Items>
  [[nodiscard]] axpy<Items> make_axpy(std::uint32_t thousands, bool r) const {
    return {memory.a(), memory.b(), memory.out(r), thousands << 10, 1.5f};
  }
  template <std::uint32_t Threads>
  [[nodiscard]] softmax<Threads> make_softmax(std::uint32_t rows, std::uint32_t columns,
                                              bool r) const {
    return {memory.a(), memory.out(r), rows, columns};
  }
  template <std::uint32_t Threads>
  [[nodiscard]] row_mean<Threads> make_mean(std::uint32_t rows, std::uint32_t columns,
                                            bool r) const {
    return {memory.a(), memory.out(r), rows, columns};
  }
  template <std::uint32_t Items>
  [[nodiscard]] convolve<Items> make_convolve(std::uint32_t planes, std::uint32_t side,
                                              bool r) const {
    return {memory.a(), memory.b(), memory.out(r), planes, side};
  }

  void add_all_real(bool few);
  void add_all_corunners(bool few);

  [[nodiscard]] std::vector<work> works(std::span<const share> of) const {
    std::vector<work> all;
    for (const share& s : of) all.push_back(corunners[s.corunner].all.range(s.first, s.blocks));
    return all;
  }

  pool memory;
  cuda::padder<family> pads;
  gsched::duration gap{};
  std::array<called_function, reals::size> functions{};
  std::vector<real_entry> real;
  std::vector<subject> real_facts;
  std::vector<corunner_entry> corunners;
  std::vector<subject> corunner_facts;
};

namespace {

std::string text(std::uint64_t n) { return std::to_string(n); }
std::string text(std::uint64_t n, std::uint64_t m) { return text(n) + "x" + text(m); }

} // namespace

void subjects::state::add_all_real(bool few) {
  using list = std::vector<std::pair<std::uint32_t, std::uint32_t>>;
  const auto some = [few](list all) {
    if (few) all.resize(1);
    return all;
  };
  for (const auto& [n, _] : some({{512, 0}, {256, 0}, {384, 0}, {640, 0}, {1024, 0}}))
    add_real(make_gemm<64>(n, true), {"gemm", "64", text(n)});
  for (const auto& [n, _] : some({{256, 0}, {192, 0}, {320, 0}, {512, 0}}))
    add_real(make_gemm<32>(n, true), {"gemm", "32", text(n)});
  for (const auto& [kib, _] : some({{1024, 0}, {8192, 0}, {32768, 0}}))
    add_real(make_copy<4>(kib, true), {"copy", "4", text(kib) + " KiB"});
  for (const auto& [k, _] : some({{64, 0}, {1024, 0}, {4096, 0}}))
    add_real(make_axpy<4>(k, true), {"axpy", "4", text(k) + " Ki"});
  for (const auto& [rows, columns] : some({{64, 4096}, {512, 1024}, {96, 16384}}))
    add_real(make_softmax<256>(rows, columns, true), {"softmax", "256", text(rows, columns)});
  for (const auto& [rows, columns] : some({{64, 8192}, {1024, 1024}, {100, 65536}}))
    add_real(make_mean<256>(rows, columns, true), {"row_mean", "256", text(rows, columns)});
  for (const auto& [planes, side] : some({{32, 28}, {64, 56}, {16, 28}}))
    add_real(make_convolve<1>(planes, side, true), {"convolve", "1", text(planes, side)});
}

void subjects::state::add_all_corunners(bool few) {
  add_corunner(make_gemm<64>(512, false), {"gemm", "64", "512"});
  add_corunner(make_gemm<32>(512, false), {"gemm", "32", "512"});
  for (const std::uint32_t kib :
       few ? std::vector{8192u} : std::vector{2048u, 4096u, 8192u, 32768u}) {
    const std::string shape = text(kib) + " KiB";
    add_corunner(make_copy<1>(kib, false), {"copy", "1", shape});
    add_corunner(make_copy<4>(kib, false), {"copy", "4", shape});
    add_corunner(make_copy<16>(kib, false), {"copy", "16", shape});
    add_corunner(make_copy<32>(kib, false), {"copy", "32", shape});
    add_corunner(make_copy<64>(kib, false), {"copy", "64", shape});
  }
  add_corunner(make_axpy<1>(2048, false), {"axpy", "1", "2048 Ki"});
  add_corunner(make_axpy<4>(2048, false), {"axpy", "4", "2048 Ki"});
  add_corunner(make_softmax<128>(512, 1024, false), {"softmax", "128", "512x1024"});
  add_corunner(make_softmax<256>(512, 1024, false), {"softmax", "256", "512x1024"});
  add_corunner(make_mean<128>(1024, 1024, false), {"row_mean", "128", "1024x1024"});
  add_corunner(make_mean<256>(1024, 1024, false), {"row_mean", "256", "1024x1024"});
  add_corunner(make_convolve<1>(64, 56, false), {"convolve", "1", "64x56"});
  add_corunner(make_convolve<4>(64, 56, false), {"convolve", "4", "64x56"});
}

subjects::subjects(const cuda::gpu& on, bool few) : state_(std::make_unique<state>(on)) {
  state_->add_all_real(few);
  state_->add_all_corunners(few);
}
subjects::~subjects() = default;

const std::vector<subject>& subjects::real_time() const { return state_->real_facts; }
const std::vector<subject>& subjects::corunners() const { return state_->corunner_facts; }
const cuda::pad_table& subjects::table() const { return state_->pads.table(); }
gsched::duration subjects::gap() const { return state_->gap; }
stamps* subjects::scratch() const { return state_->memory.scratch(); }

cudaGraphNode_t subjects::add(cudaGraph_t g, after a, std::size_t i, form how, stamps* to) const {
  const real_entry& e = state_->real[i];
  if (how == form::plain) return e.plain(g, a, to);
  if (how == form::pointer) return e.pointer(g, a, to);
  return state_->pads.add_node(g, a, e.make(to), {});
}

cudaGraphNode_t subjects::add_padded(cudaGraph_t g, after a, std::size_t i,
                                     std::span<const share> beside, stamps* to) const {
  return state_->pads.add_node(g, a, state_->real[i].make(to), state_->works(beside));
}

cudaGraphNode_t subjects::add_plain_corunner(cudaGraph_t g, after a, std::size_t i) const {
  return state_->corunners[i].plain(g, a);
}

cudaGraphNode_t subjects::add_rest(cudaGraph_t g, after a, const share& of) const {
  return state_->pads.add_node(g, a, {}, state_->works({&of, 1}));
}

cuda::pad_launch subjects::launch_of(std::size_t i, std::span<const share> beside) const {
  const work real = state_->real[i].make(state_->memory.scratch());
  const std::vector<work> all = state_->works(beside);
  const auto c = state_->pads.choose(real, all);
  if (!c) throw gsched::error(gsched::errc::does_not_fit, state_->pads.why_not(real, all));
  return *c;
}

subjects::host_cost subjects::time_host(std::size_t i, const share& beside) {
  using clock = std::chrono::steady_clock;
  const auto ns = [](clock::duration d, int n) {
    return std::chrono::duration<double, std::nano>(d).count() / n;
  };
  const work real = state_->real[i].make(state_->memory.scratch());
  const std::vector<work> corunner = state_->works({&beside, 1});
  host_cost cost;
  constexpr int choices = 100000, launches = 200;
  std::uint64_t blocks = 0;
  auto start = clock::now();
  for (int n = 0; n < choices; ++n) blocks += state_->pads.choose(real, corunner)->blocks;
  cost.choose_ns = ns(clock::now() - start, choices);
  if (blocks == 0) throw gsched::error(gsched::errc::does_not_fit, "padding: no blocks");
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  for (int n = -5; n < launches; ++n) {
    start = clock::now();
    const std::error_code e = state_->pads.launch(stream, real, corunner);
    if (n >= 0) cost.launch_ns += ns(clock::now() - start, launches);
    if (e) cuda::fail(e, "padded launch");
    check(cudaStreamSynchronize(stream));
  }
  check(cudaStreamDestroy(stream));
  return cost;
}

} // namespace padding
