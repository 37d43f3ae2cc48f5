// SPDX-License-Identifier: Apache-2.0
// A policy of the user, in the conformance suite that comes with the package.
#include <gsched/policy/conformance.hpp>
#include <gsched/policy/order.hpp>
#include <gsched/policy/policy.hpp>

#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <string_view>

static std::atomic<std::size_t> allocated{0};

void* operator new(std::size_t bytes) {
  ++allocated;
  if (void* const p = std::malloc(bytes == 0 ? 1 : bytes)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }

namespace {

/// The heaviest client first, then the job with the least work left.
class heaviest_first {
public:
  static constexpr std::string_view name = "heaviest";

  struct per_job : gsched::queued_job {
    gsched::set_hook order_hook{};
  };

  ~heaviest_first() { waiting_.clear(); }

  void enqueue(per_job& j, gsched::time_point) noexcept { waiting_.insert(j); }
  [[nodiscard]] per_job* try_pick(gsched::time_point) noexcept {
    if (waiting_.empty()) return nullptr;
    per_job& first = *waiting_.begin();
    waiting_.erase(waiting_.begin());
    return &first;
  }
  void erase(per_job& j) noexcept { waiting_.erase(waiting_.iterator_to(j)); }
  [[nodiscard]] bool wants_preempt(const per_job& running, gsched::time_point) const noexcept {
    return !waiting_.empty() && before(*waiting_.begin(), running) &&
           !same_rank(*waiting_.begin(), running);
  }
  [[nodiscard]] gsched::duration slice(const per_job&) const noexcept {
    return gsched::run_to_completion;
  }
  [[nodiscard]] std::size_t size() const noexcept { return waiting_.size(); }

private:
  static bool same_rank(const per_job& a, const per_job& b) noexcept {
    return a->owner->weight == b->owner->weight && a->remaining == b->remaining;
  }
  static bool before(const per_job& a, const per_job& b) noexcept {
    if (a->owner->weight != b->owner->weight) return a->owner->weight > b->owner->weight;
    if (a->remaining != b->remaining) return a->remaining < b->remaining;
    return a->id < b->id;
  }
  struct order {
    bool operator()(const per_job& a, const per_job& b) const noexcept { return before(a, b); }
  };
  using hook = gsched::bi::member_hook<per_job, gsched::set_hook, &per_job::order_hook>;
  gsched::bi::set<per_job, hook, gsched::bi::compare<order>> waiting_;
};
static_assert(gsched::policy<heaviest_first>);

/// The same, but its ties leave by falling id.
struct wrong_ties : heaviest_first {
  [[nodiscard]] per_job* try_pick(gsched::time_point now) noexcept {
    per_job* const first = heaviest_first::try_pick(now);
    per_job* const second = heaviest_first::try_pick(now);
    if (second == nullptr) return first;
    enqueue(*first, now);
    return second;
  }
};

} // namespace

int main() {
  const gsched::conformance::options with{[]() -> std::size_t { return allocated; }};
  const auto report = gsched::conformance::check_policy<heaviest_first>({}, with);
  std::fputs(report.text().c_str(), stderr);
  const auto broken = gsched::conformance::check_policy<wrong_ties>({}, with);
  const bool found = !broken.holds() && broken.broken.front().clause == "P4 ties";
  if (!found) std::fprintf(stderr, "expected P4 ties, got: %s\n", broken.text().c_str());
  return report.holds() && report.skipped.empty() && found ? 0 : 1;
}
