// SPDX-License-Identifier: Apache-2.0
// The cost of a decision: try_pick, and enqueue of the picked job or of a new one.
//
//   policy/decision/...     the library's policies
//   policy/chosen/...       some of them, chosen at run time by name
//   policy/container/...    the order of srpt in other containers
//
// Times are CPU times of this thread (column CPU), to reduce the effect of other load.
//
//   pattern=serve   a picked job does up to 100 us of its work and returns; a finished job is
//                   replaced by a new one, so the number of jobs is constant
//   pattern=random  the key of a picked job grows by as much as a new job has: no locality
//
//   pages=huge      jobs are on huge pages: otherwise a million of them exceeds the TLB
//
// The number of decisions is fixed, so every container makes the same ones. Every container must
// pick the same jobs as srpt, and a chosen policy as the policy itself; otherwise the program ends
// with 1. first_pick_ns is the time of the
// first try_pick after all jobs were enqueued, which includes deferred work.

#include <gsched/policy/names.hpp>
#include <gsched/policy/priority.hpp>

#include <boost/heap/pairing_heap.hpp>
#include <boost/intrusive/avl_set.hpp>
#include <boost/intrusive/splay_set.hpp>

#include <benchmark/benchmark.h>

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <queue>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace {

using namespace gsched;
using key = std::tuple<duration, job_id>;

key key_of(const job& j) noexcept { return {j.remaining, j.id}; }

/// A job with space for the handles of some containers. Its first cache line is the job's own.
struct bench_job : job {
  bi::avl_set_member_hook<> avl_hook{};
  bi::bs_set_member_hook<> bs_hook{};
  std::size_t place = 0;
};

enum class pattern { serve, random };
enum class pages { small, huge };

/// Common parts of the containers below.
struct container {
  using record = bench_job;
  void meet(client*, std::size_t) noexcept {}
  void begin(bench_job&) noexcept {}
};

/// A policy with its states in arrays, as the dispatcher stores them.
template <policy P>
struct of_policy {
  struct record : job {
    typename P::per_job state{};
  };
  std::unique_ptr<per_client_t<P>[]> clients{};
  P order{};

  void meet(client* all, std::size_t n) {
    clients = std::make_unique<per_client_t<P>[]>(n);
    for (std::size_t i = 0; i < n; ++i) clients[i].bind(all[i]);
  }
  void begin(record& j) noexcept { j.state.bind(j, clients[index(j.owner->id)]); }
  void enqueue(record& j, time_point now) noexcept { order.enqueue(j.state, now); }
  [[nodiscard]] record* try_pick(time_point now) noexcept {
    return static_cast<record*>(&order.try_pick(now)->bound());
  }
};
/// P, chosen at run time.
template <policy P>
struct chosen : named_policy {
  chosen() : named_policy(make_policy(P::name)) {}
};
template <class T>
struct order_of {
  using type = T;
};
template <policy P>
struct order_of<P> {
  using type = of_policy<P>;
};

/// An array of jobs, on malloc's pages, or on huge pages if the system has them.
template <class Record>
struct job_memory {
  job_memory(std::size_t n, pages on) : count(n) {
    constexpr std::size_t huge = std::size_t{1} << 21;
    const std::size_t alignment = on == pages::huge ? huge : alignof(Record);
    const std::size_t bytes = (n * sizeof(Record) + alignment - 1) / alignment * alignment;
    void* raw = std::aligned_alloc(alignment, bytes);
    if (raw == nullptr) throw std::bad_alloc();
    if (on == pages::huge && madvise(raw, bytes, MADV_HUGEPAGE) != 0)
      std::fprintf(stderr, "policy_decision: no huge pages here\n");
    jobs = static_cast<Record*>(raw);
    std::uninitialized_default_construct_n(jobs, n);
  }
  job_memory(const job_memory&) = delete;
  ~job_memory() {
    std::destroy_n(jobs, count);
    std::free(jobs);
  }

  Record* jobs;
  std::size_t count;
};

/// The jobs and the sequence of decisions, equal for all containers.
template <class Record>
class traffic {
public:
  traffic(std::size_t n, pattern p, std::size_t clients, pages on)
      : memory_(n, on), jobs_(memory_.jobs), clients_(new client[clients]), n_(n),
        client_count_(clients), pattern_(p) {
    for (std::size_t i = 0; i < clients; ++i)
      clients_[i].id = client_id{static_cast<std::uint32_t>(i)};
  }

  /// In an order unrelated to their addresses.
  template <class Order>
  void fill(Order& order) {
    order.meet(clients_.get(), client_count_);
    std::vector<std::uint32_t> ids(n_);
    for (std::size_t i = 0; i < n_; ++i) ids[i] = static_cast<std::uint32_t>(i);
    std::shuffle(ids.begin(), ids.end(), random_);
    for (const std::uint32_t i : ids) {
      renew(jobs_[i], order);
      order.enqueue(jobs_[i], now_);
    }
  }

  template <class Order>
  std::uint64_t step(Order& order) {
    auto& j = static_cast<Record&>(*order.try_pick(now_));
    const std::uint64_t picked = index(j.id);
    now_ += j.head;
    if (pattern_ == pattern::random) {
      j.remaining += draw(); // so the numbers of jobs before and behind it stay equal
    } else {
      j.remaining -= j.head;
      if (j.remaining == duration::zero()) renew(j, order);
      j.head = std::min(j.remaining, duration{std::chrono::microseconds{100}});
    }
    order.enqueue(j, now_);
    return picked;
  }

private:
  /// From 200 us to 4 ms: inferences of small and medium networks.
  duration draw() { return duration{200000 + static_cast<std::int64_t>(random_() % 3800000)}; }

  template <class Order>
  void renew(Record& j, Order& order) {
    j.id = job_id{next_id_++};
    j.owner = &clients_[random_() % client_count_];
    j.arrival = now_;
    j.total = j.remaining = draw();
    j.deadline = now_ + 10 * j.total;
    j.head = std::min(j.remaining, duration{std::chrono::microseconds{100}});
    j.service = random_() % 8 == 0 ? service_class::real_time : service_class::best_effort;
    order.begin(j);
  }

  job_memory<Record> memory_;
  Record* jobs_;
  std::unique_ptr<client[]> clients_;
  std::size_t n_;
  std::size_t client_count_;
  pattern pattern_;
  std::mt19937_64 random_{1};
  std::uint64_t next_id_ = 0;
  time_point now_{};
};

// Containers for the order of srpt ------------------------------------------------------------

struct less {
  bool operator()(const job& a, const job& b) const noexcept { return key_of(a) < key_of(b); }
  bool operator()(const job* a, const job* b) const noexcept { return key_of(*a) < key_of(*b); }
};

struct std_set_of_pointers : container {
  std::set<job*, less> jobs;
  void enqueue(job& j, time_point) { jobs.insert(&j); }
  job* try_pick(time_point) {
    job* j = *jobs.begin();
    jobs.erase(jobs.begin());
    return j;
  }
};

struct std_set_of_keys : container {
  std::set<std::tuple<duration, job_id, job*>> jobs;
  void enqueue(job& j, time_point) { jobs.emplace(j.remaining, j.id, &j); }
  job* try_pick(time_point) {
    job* j = std::get<2>(*jobs.begin());
    jobs.erase(jobs.begin());
    return j;
  }
};

/// The entry of an erased job would remain until it reaches the top; here no job is erased.
struct std_priority_queue : container {
  using entry = std::tuple<duration, job_id, job*>;
  std::priority_queue<entry, std::vector<entry>, std::greater<>> jobs;
  void enqueue(job& j, time_point) { jobs.emplace(j.remaining, j.id, &j); }
  job* try_pick(time_point) {
    job* j = std::get<2>(jobs.top());
    jobs.pop();
    return j;
  }
};

struct boost_pairing_heap : container {
  struct greater {
    bool operator()(const job* a, const job* b) const noexcept { return key_of(*b) < key_of(*a); }
  };
  boost::heap::pairing_heap<job*, boost::heap::compare<greater>> jobs;
  void enqueue(job& j, time_point) { jobs.push(&j); }
  job* try_pick(time_point) {
    job* j = jobs.top();
    jobs.pop();
    return j;
  }
};

template <class Set>
struct intrusive : container {
  Set jobs;
  void enqueue(job& j, time_point) { jobs.insert(static_cast<bench_job&>(j)); }
  job* try_pick(time_point) {
    job& j = *jobs.begin();
    jobs.erase(jobs.begin());
    return &j;
  }
};
using avl_hook = bi::member_hook<bench_job, bi::avl_set_member_hook<>, &bench_job::avl_hook>;
using bs_hook = bi::member_hook<bench_job, bi::bs_set_member_hook<>, &bench_job::bs_hook>;
using intrusive_avl = intrusive<bi::avl_set<bench_job, avl_hook, bi::compare<less>>>;
using intrusive_splay = intrusive<bi::splay_set<bench_job, bs_hook, bi::compare<less>>>;

/// Adjacent keys; each job knows its position, so that it can be erased. Allocates when it grows.
struct four_ary_heap : container {
  struct entry {
    key k;
    bench_job* j;
  };
  std::vector<entry> heap;

  void put(std::size_t at, const entry& e) {
    heap[at] = e;
    e.j->place = at;
  }
  void enqueue(job& j, time_point) {
    const entry e{key_of(j), static_cast<bench_job*>(&j)};
    std::size_t at = heap.size();
    heap.push_back(e);
    for (; at > 0 && e.k < heap[(at - 1) / 4].k; at = (at - 1) / 4) put(at, heap[(at - 1) / 4]);
    put(at, e);
  }
  job* try_pick(time_point) {
    job* first = heap[0].j;
    const entry e = heap.back();
    heap.pop_back();
    std::size_t at = 0;
    while (4 * at + 1 < heap.size()) {
      std::size_t least = 4 * at + 1;
      for (std::size_t c = least + 1; c < std::min(4 * at + 5, heap.size()); ++c)
        if (heap[c].k < heap[least].k) least = c;
      if (!(heap[least].k < e.k)) break;
      put(at, heap[least]);
      at = least;
    }
    if (!heap.empty()) put(at, e);
    return first;
  }
};

/// Section 6 of the Paella paper literally: one deficit for each client, updated by every pick.
struct deficits_one_by_one : container {
  std_set_of_pointers base;
  std::vector<double> deficit = std::vector<double>(1024);
  struct older {
    bool operator()(const job* a, const job* b) const noexcept { return a->id < b->id; }
  };
  std::vector<std::set<job*, older>> by_age = std::vector<std::set<job*, older>>(1024);
  std::size_t clients = 0;

  void enqueue(job& j, time_point now) {
    const std::size_t c = index(j.owner->id);
    clients = std::max(clients, c + 1);
    by_age[c].insert(&j);
    base.enqueue(j, now);
  }
  job* try_pick(time_point) {
    const auto most = std::max_element(deficit.begin(), deficit.begin() + std::ptrdiff_t(clients));
    const auto c = static_cast<std::size_t>(most - deficit.begin());
    job* j = *most > 1e7 && !by_age[c].empty() ? *by_age[c].begin() : *base.jobs.begin();
    base.jobs.erase(j);
    by_age[index(j->owner->id)].erase(j);
    const auto x = static_cast<double>(j->head.count());
    for (std::size_t k = 0; k < clients; ++k) deficit[k] += x / static_cast<double>(clients);
    deficit[index(j->owner->id)] -= x;
    return j;
  }
};

// Measuring ---------------------------------------------------------------------------------------

template <class Order>
struct scene {
  traffic<typename Order::record> t;
  Order order;
  double first_pick_ns = 0;

  scene(std::size_t n, pattern p, std::size_t clients, pages on) : t(n, p, clients, on) {
    t.fill(order);
    const auto before = std::chrono::steady_clock::now();
    t.step(order);
    first_pick_ns =
        std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - before).count();
  }
};

std::shared_ptr<void> current; // of the running benchmark, for all its repetitions

template <class Order>
void measure(benchmark::State& state, std::size_t n, pattern p, std::size_t clients, pages on,
             const std::string& row) {
  static std::string made_for;
  if (made_for != row || current == nullptr) {
    current.reset();
    current = std::make_shared<scene<typename order_of<Order>::type>>(n, p, clients, on);
    made_for = row;
  }
  auto& s = *static_cast<scene<typename order_of<Order>::type>*>(current.get());
  for (auto _ : state) benchmark::DoNotOptimize(s.t.step(s.order));
  state.counters["first_pick_ns"] = s.first_pick_ns;
}

template <class Order>
void add(const std::string& component, std::string_view name, std::size_t n, pattern p,
         std::size_t clients = 16, pages on = pages::small) {
  const std::string row = "policy/" + component + "/cpu/ns{" + component + "=" + std::string(name) +
                          ",jobs=" + std::to_string(n) + ",clients=" + std::to_string(clients) +
                          ",pattern=" + (p == pattern::serve ? "serve" : "random") +
                          (on == pages::huge ? ",pages=huge}" : "}");
  benchmark::RegisterBenchmark(
      row.c_str(), [=](benchmark::State& state) { measure<Order>(state, n, p, clients, on, row); })
      ->Repetitions(7)
      ->Iterations(300000)
      ->ReportAggregatesOnly()
      ->ComputeStatistics("max", [](const std::vector<double>& v) {
        return *std::max_element(v.begin(), v.end());
      });
}

/// The first decisions of an order, which others must repeat.
template <class Order>
std::vector<std::uint64_t> decisions(pattern p) {
  scene<typename order_of<Order>::type> s(1000, p, 16, pages::small);
  std::vector<std::uint64_t> picked;
  for (int i = 0; i < 20000; ++i) picked.push_back(s.t.step(s.order));
  return picked;
}

int differences = 0;

template <class Order, policy P>
void check_as(std::string_view name, pattern p) {
  if (decisions<Order>(p) == decisions<P>(p)) return;
  std::fprintf(stderr, "policy_decision: %.*s decides otherwise than %.*s\n",
               static_cast<int>(name.size()), name.data(), static_cast<int>(P::name.size()),
               P::name.data());
  ++differences;
}

template <class Order>
void add_container(std::string_view name, bool small_only = false) {
  for (const pattern p : {pattern::serve, pattern::random}) {
    check_as<Order, srpt>(name, p);
    for (const std::size_t n : {10u, 1000u, 10000u, 100000u, 1000000u})
      if (!small_only || n <= 100000) add<Order>("container", name, n, p);
  }
}

template <class P>
void add_policy() {
  for (const std::size_t n : {10u, 1000u, 10000u, 100000u, 1000000u})
    add<P>("decision", P::name, n, pattern::serve);
  for (const std::size_t n : {10000u, 1000000u}) add<P>("decision", P::name, n, pattern::random);
}

template <policy P>
void add_chosen() {
  check_as<chosen<P>, P>("a chosen policy", pattern::serve);
  for (const std::size_t n : {10u, 1000u, 10000u, 1000000u})
    add<chosen<P>>("chosen", P::name, n, pattern::serve);
}

} // namespace

int main(int argc, char** argv) {
  [&]<class... Ps>(policy_list<Ps...>) { (add_policy<Ps>(), ...); }(selectable_policies{});
  add_policy<gsched::priority<edf, deficit_over<srpt>>>();
  add_chosen<fifo>();
  add_chosen<srpt>();
  add_chosen<deficit_over<srpt>>();
  add_chosen<gamma_boost>();
  for (const std::size_t n : {10000u, 1000000u})
    add<deficit_over<srpt>>("decision", deficit_over<srpt>::name, n, pattern::serve, 1000);
  for (const pattern p : {pattern::serve, pattern::random})
    add<deficit_over<srpt>>("decision", deficit_over<srpt>::name, 1000000, p, 16, pages::huge);
  for (const std::size_t clients : {16u, 1000u})
    for (const std::size_t n : {10000u, 1000000u})
      add<deficits_one_by_one>("decision", "deficits-one-by-one", n, pattern::serve, clients);

  add_container<srpt>("bi::set (used)");
  add_container<intrusive_avl>("bi::avl_set");
  add_container<intrusive_splay>("bi::splay_set");
  add_container<std_set_of_pointers>("std::set<job*>");
  add_container<std_set_of_keys>("std::set<key>");
  add_container<std_priority_queue>("std::priority_queue");
  add_container<boost_pairing_heap>("boost::pairing_heap");
  add_container<four_ary_heap>("4-ary heap");
  if (differences > 0) return 1;

  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  current.reset();
  return 0;
}
