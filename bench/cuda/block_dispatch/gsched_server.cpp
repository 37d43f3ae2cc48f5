// SPDX-License-Identifier: Apache-2.0
// Jobs through a dispatcher, kernel by kernel, with one of three accountants.

#include "block_dispatch/graph.hpp"
#include "block_dispatch/way.hpp"

#include <gsched/cuda/device.hpp>
#include <gsched/cuda/program.hpp>
#include <gsched/dispatch/dispatcher.hpp>
#include <gsched/job/task.hpp>
#include <gsched/occupancy/aggregate_accountant.hpp>
#include <gsched/occupancy/per_sm_accountant.hpp>
#include <gsched/policy/fifo.hpp>
#include <gsched/policy/srpt.hpp>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace block_dispatch {

using namespace gsched;

namespace {

/// An accountant that forwards every call that it does not override.
template <accountant Counts>
class on_top_of {
public:
  static constexpr bool wants_blocks = Counts::wants_blocks;

  on_top_of(const architecture_limits& l, sm_count sms, const accountant_options& o)
      : counts_(l, sms, o) {}

  void charge(segment_id s, const footprint& f, std::optional<segment_id> behind = {}) noexcept {
    counts_.charge(s, f, behind);
  }
  void release(segment_id s) noexcept { counts_.release(s); }
  void started(segment_id s, std::uint32_t o, const kernel_demand& k, std::uint32_t sm,
               std::uint32_t n) noexcept {
    counts_.started(s, o, k, sm, n);
  }
  void ended(segment_id s, std::uint32_t o, std::uint32_t sm, std::uint32_t n) noexcept {
    counts_.ended(s, o, sm, n);
  }
  [[nodiscard]] double load() const noexcept { return counts_.load(); }
  [[nodiscard]] std::size_t slots() const noexcept { return counts_.slots(); }
  [[nodiscard]] std::size_t outstanding() const noexcept { return counts_.outstanding(); }
  [[nodiscard]] const accountant_violations& violations() const noexcept {
    return counts_.violations();
  }

protected:
  Counts counts_;
};

/// An accountant that always has room: only the number of lanes limits the work on the GPU.
class no_accountant : public on_top_of<aggregate_accountant> {
public:
  using on_top_of::on_top_of;

  [[nodiscard]] bool has_room() const noexcept { return counts_.outstanding() < counts_.slots(); }
  [[nodiscard]] bool admits(const footprint&) const noexcept { return has_room(); }
};
static_assert(accountant<no_accountant>);

/// per_sm_accountant, which also has no room while the blocks that fit on no SM are as many as the
/// overshoot: blocks of started kernels, and blocks of the others beyond the free resources of each
/// SM. Notifications must name the SM of each block.
class each_sm_accountant : public on_top_of<per_sm_accountant> {
public:
  each_sm_accountant(const architecture_limits& l, sm_count sms, const accountant_options& o)
      : on_top_of(l, sms, o), limits_(l), sms_(sms.count()), most_(o.overshoot_blocks) {
    not_begun_.reserve(o.max_outstanding);
  }

  [[nodiscard]] bool has_room() const noexcept { return counts_.has_room() && stuck() < most_; }
  [[nodiscard]] bool admits(const footprint& f) const noexcept {
    return has_room() && counts_.admits(f);
  }
  void charge(segment_id s, const footprint& f, std::optional<segment_id> behind = {}) noexcept {
    on_top_of::charge(s, f, behind);
    not_begun_.push_back({s, behind, f.widest});
  }
  void release(segment_id s) noexcept {
    on_top_of::release(s);
    forget(s);
    for (waiting& w : not_begun_)
      if (w.behind == s) w.behind.reset();
  }
  void started(segment_id s, std::uint32_t o, const kernel_demand& k, std::uint32_t sm,
               std::uint32_t n) noexcept {
    on_top_of::started(s, o, k, sm, n);
    forget(s);
  }

private:
  struct waiting {
    segment_id id;
    std::optional<segment_id> behind;
    kernel_demand widest;
  };

  void forget(segment_id s) noexcept {
    std::erase_if(not_begun_, [&](const waiting& w) { return w.id == s; });
  }

  [[nodiscard]] std::uint64_t stuck() const noexcept {
    std::uint64_t begun = counts_.waiting_blocks();
    std::uint64_t others = 0;
    for (const waiting& w : not_begun_) {
      if (w.behind || w.widest.blocks == 0) continue;
      begun -= std::min(begun, w.widest.blocks);
      others += w.widest.blocks - fitting(w.widest);
    }
    return begun + others;
  }

  /// The number of a kernel's blocks that the SMs can hold.
  [[nodiscard]] std::uint64_t fitting(const kernel_demand& k) const noexcept {
    const auto part = [](std::uint32_t all, std::uint32_t used, std::uint32_t each) {
      return each == 0 ? ~0u : (all - std::min(all, used)) / each;
    };
    std::uint64_t n = 0;
    for (std::uint32_t sm = 0; sm < sms_ && n < k.blocks; ++sm) {
      const sm_usage& u = counts_.usage(sm);
      n += std::min({part(limits_.max_blocks, u.blocks, 1),
                     part(limits_.max_threads, u.threads, k.threads),
                     part(limits_.registers, u.registers, k.registers),
                     part(limits_.shared_bytes, u.shared_bytes, k.shared_bytes)});
    }
    return std::min(n, k.blocks);
  }

  architecture_limits limits_;
  std::uint32_t sms_;
  std::uint64_t most_;
  std::vector<waiting> not_begun_;
};
static_assert(accountant<each_sm_accountant>);

struct hears_ends : silent_listener {
  std::vector<std::uint32_t> ended;
  std::exception_ptr failure;

  void on_failure(const job&, std::exception_ptr why, time_point) noexcept { failure = why; }
  void on_end(const job&, void* user, time_point) noexcept {
    ended.push_back(static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(user)));
  }
};

cuda::program make_program(const server_options& o, const tenant& of) {
  auto [graph, last] = make_chain(of, o.cycles_per_us, o.how.instrumented);
  cuda::program made(graph, {.name = of.name}); // measured
  cuda::check(cudaGraphDestroy(graph), "graph");
  return made;
}

template <class Policy, class Accountant>
class gsched_server final : public server {
public:
  explicit gsched_server(const server_options& o)
      : device_(device_how(o)),
        account_(device_.limits().sm, device_.limits().sms, account_how(o.how)),
        scheduler_(device_, order_, account_, hears_, dispatch_how(o)) {
    hears_.ended.reserve(1 << 16);
    programs_.reserve(o.what.tenants.size());
    for (const tenant& t : o.what.tenants) {
      programs_.push_back(make_program(o, t));
      gsched::program& host = programs_.back().host();
      scheduler_.load(host);
      bodies_[models_.size()].graph = &host;
      models_.push_back(scheduler_.add_model(t.name, bodies_[models_.size()], &host));
      clients_.push_back(&scheduler_.add_client());
    }
  }

  void submit(unsigned tenant, std::uint32_t job) override {
    job_request r;
    r.model = models_[tenant];
    r.owner = clients_[tenant];
    r.arrival = device_.now();
    r.user = reinterpret_cast<void*>(static_cast<std::uintptr_t>(job));
    static_cast<void>(scheduler_.submit(r));
  }

  void poll(std::vector<std::uint32_t>& ended) override {
    static_cast<void>(scheduler_.step());
    if (hears_.failure) std::rethrow_exception(hears_.failure);
    ended.insert(ended.end(), hears_.ended.begin(), hears_.ended.end());
    hears_.ended.clear();
  }

  void check_end() const override {
    if (account_.outstanding() != 0 || account_.violations().total() != 0 ||
        device_.statistics().lost_words != 0 || device_.statistics().built_late != 0)
      throw std::runtime_error("segments, reports or words were lost, or graphs were built late");
  }

private:
  struct body {
    gsched::program* graph = nullptr;
    task operator()(job_context& ctx) const {
      ctx.launch(*graph);
      co_return;
    }
  };

  static cuda::device_options device_how(const server_options& o) {
    cuda::device_options d;
    d.gpu = o.gpu;
    d.instrumented = o.how.instrumented;
    d.copies = 2 * o.lanes;
    d.group_blocks = o.how.group_blocks;
    if (!o.how.whole) {
      d.grain = from_us(1); // grains of one kernel each
      d.levels = 1;
    }
    return d;
  }
  static accountant_options account_how(const way& w) {
    accountant_options a;
    if (w.by == account::aggregate) {
      a.overshoot_fill = w.overshoot_fill;
      a.overshoot_time = from_us(w.overshoot_us);
    }
    a.overshoot_blocks = w.overshoot_blocks;
    return a;
  }
  static dispatch_options dispatch_how(const server_options& o) {
    dispatch_options d;
    d.lanes = o.lanes;
    d.instrumented = o.how.instrumented;
    if (!o.how.whole) d.quantum = d.most_quantum = from_us(1);
    return d;
  }

  cuda::device device_;
  Accountant account_;
  Policy order_;
  hears_ends hears_;
  std::vector<cuda::program> programs_;
  std::array<body, 3> bodies_;
  dispatcher<Policy, cuda::device, Accountant, hears_ends> scheduler_;
  std::vector<model_id> models_;
  std::vector<client*> clients_;
};

template <class Policy>
std::unique_ptr<server> make(const server_options& o) {
  switch (o.how.by) {
  case account::none: return std::make_unique<gsched_server<Policy, no_accountant>>(o);
  case account::block_level: return std::make_unique<gsched_server<Policy, per_sm_accountant>>(o);
  case account::each_sm: return std::make_unique<gsched_server<Policy, each_sm_accountant>>(o);
  default: return std::make_unique<gsched_server<Policy, aggregate_accountant>>(o);
  }
}

} // namespace

std::unique_ptr<server> make_gsched_server(const server_options& o) {
  return o.by == order::srpt ? make<srpt>(o) : make<fifo>(o);
}

} // namespace block_dispatch
