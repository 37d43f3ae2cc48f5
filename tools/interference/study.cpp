// SPDX-License-Identifier: Apache-2.0
#include "interference/study.hpp"

#include "interference/fitting.hpp"

#include <gsched/interference/corun_slowdowns.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <thread>

namespace interference {

using namespace gsched;

namespace {

using some_pairs = std::vector<const known_pair*>;
using predictions = std::vector<std::array<double, 2>>; ///< by pair, then side

/// Four digits are more than a fit knows.
double four_places(double x) { return std::round(x * 1e4) / 1e4; }

/// A law with its fit and its predictions.
template <class Law>
struct method;

template <>
struct method<linear_law> {
  static linear_law fit(const linear_law& /*start*/, const some_pairs& pairs, const char* what) {
    std::vector<linear_sample> samples;
    for (const known_pair* p : pairs)
      for (std::size_t i = 0; i < 2; ++i)
        samples.push_back({p->takes[i], p->takes[1 - i], p->row.side[i].slowdown()});
    linear_law law = fit_linear(samples, what);
    std::transform(law.c.begin(), law.c.end(), law.c.begin(), four_places);
    return law;
  }
  static predictions predict(const linear_law& law, const some_pairs& pairs,
                             const std::string* /*unseen*/ = nullptr) {
    predictions all;
    for (const known_pair* p : pairs)
      all.push_back(
          {law.slowdown(p->takes[0], p->takes[1]), law.slowdown(p->takes[1], p->takes[0])});
    return all;
  }
};

template <>
struct method<sharing_law> {
  static sharing_law fit(const sharing_law& begin, const some_pairs& pairs, const char* what) {
    const std::array<double, sharing_law::size> start = begin.values();
    constexpr std::array<double, sharing_law::size> steps{0.02, 0.08, 0.15, 0.15, 0.1, 0.1};
    constexpr std::array<double, sharing_law::size> most{0.5, 2, 3, 3, 1, 3};
    std::vector<unknown> unknowns;
    for (std::size_t i = 0; i < start.size(); ++i)
      unknowns.push_back({start[i], steps[i], 0, most[i]});
    const auto residuals = [&](std::span<const double> v) {
      const predictions predicted = predict(law_of(v), pairs);
      std::vector<double> r;
      for (std::size_t p = 0; p < predicted.size(); ++p)
        for (std::size_t i = 0; i < 2; ++i)
          r.push_back(std::log(predicted[p][i] / pairs[p]->row.side[i].slowdown()));
      return r;
    };
    std::vector<double> found = fit_values(residuals, unknowns, what);
    std::transform(found.begin(), found.end(), found.begin(), four_places);
    return law_of(found);
  }
  /// A model that is `unseen` is predicted as if it had no profile.
  static predictions predict(const sharing_law& law, const some_pairs& pairs,
                             const std::string* unseen = nullptr) {
    predictions all(pairs.size());
    const auto chain = [&](const known_pair& p, std::size_t i) -> const kernel_chain& {
      return unseen != nullptr && p.row.side[i].model == *unseen ? *p.stand_ins[i] : *p.chains[i];
    };
    const std::size_t workers = std::clamp<std::size_t>(std::thread::hardware_concurrency(), 1, 16);
    std::vector<std::jthread> running;
    for (std::size_t w = 0; w < workers; ++w)
      running.emplace_back([&, w] {
        for (std::size_t p = w; p < pairs.size(); p += workers)
          all[p] = corun_slowdowns(chain(*pairs[p], 0), chain(*pairs[p], 1), law);
      });
    running.clear(); // waits for them
    return all;
  }

private:
  static sharing_law law_of(std::span<const double> v) {
    std::array<double, sharing_law::size> values{};
    std::copy(v.begin(), v.end(), values.begin());
    return sharing_law::of(values);
  }
};

template <class Coefficients>
auto visit(subject what, Coefficients& c, const auto& f) {
  if (what == subject::disjoint) return f(c.disjoint);
  if (what == subject::shared) return f(c.shared);
  return f(c.shared_kernels);
}

some_pairs pairs_of(const pair_set& all, subject what) {
  some_pairs those;
  for (const known_pair& p : all.pairs())
    if (p.shared == (what != subject::disjoint)) those.push_back(&p);
  return those;
}

template <class Keep>
some_pairs only(const some_pairs& all, Keep keep) {
  some_pairs those;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (keep(i)) those.push_back(all[i]);
  return those;
}

std::vector<double> errors_of(const predictions& predicted, const some_pairs& pairs) {
  std::vector<double> errors;
  for (std::size_t p = 0; p < pairs.size(); ++p)
    for (std::size_t i = 0; i < 2; ++i)
      errors.push_back(relative_error(predicted[p][i], pairs[p]->row.side[i].slowdown()));
  return errors;
}

void append(std::vector<double>& to, const std::vector<double>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

std::vector<std::string> models_in(const some_pairs& pairs) {
  std::set<std::string> names;
  for (const known_pair* p : pairs)
    for (const corun_side& s : p->row.side) names.insert(s.model);
  return {names.begin(), names.end()};
}

} // namespace

std::string_view name_of(subject s) noexcept {
  switch (s) {
  case subject::disjoint: return "disjoint";
  case subject::shared: return "shared";
  case subject::shared_kernels: return "shared_kernels";
  }
  return "";
}

sharing_law neutral_law() noexcept { return sharing_law::of({0.1, 0.5, 0.5, 0.5, 0.7, 0}); }

std::size_t fits_of(const pair_set& pairs, subject what, bool once) {
  return once ? 1 : 1 + row_parts + models_in(pairs_of(pairs, what)).size();
}

findings study(const pair_set& pairs, subject what, bool once, interference_coefficients& into,
               const on_progress& progress) {
  const some_pairs all = pairs_of(pairs, what);
  const std::string name(name_of(what));
  return visit(what, into, [&]<class Law>(Law& law) {
    using m = method<Law>;
    findings f;
    f.what = what;
    const Law start = law;
    law = m::fit(start, all, name.c_str());
    f.seen = summary_of(errors_of(m::predict(law, all), all));
    progress();
    if (once) return f;

    const std::string rows_name = name + ", rows left out";
    std::vector<double> errors;
    for (std::size_t part = 0; part < row_parts; ++part) {
      const some_pairs out = only(all, [&](std::size_t i) { return i % row_parts == part; });
      const some_pairs in = only(all, [&](std::size_t i) { return i % row_parts != part; });
      append(errors, errors_of(m::predict(m::fit(start, in, rows_name.c_str()), out), out));
      progress();
    }
    f.rows_left_out = summary_of(std::move(errors));

    errors.clear();
    std::vector<double> unprofiled;
    for (const std::string& model : models_in(all)) {
      const some_pairs out = only(all, [&](std::size_t i) { return all[i]->has(model); });
      const some_pairs in = only(all, [&](std::size_t i) { return !all[i]->has(model); });
      const Law without = m::fit(start, in, (name + ", without " + model).c_str());
      const std::vector<double> of = errors_of(m::predict(without, out), out);
      f.by_model_left_out[model] = summary_of(of);
      append(errors, of);
      if (what == subject::shared_kernels)
        append(unprofiled, errors_of(m::predict(without, out, &model), out));
      progress();
    }
    f.models_left_out = summary_of(std::move(errors));
    if (!unprofiled.empty()) f.without_profiles = summary_of(std::move(unprofiled));
    return f;
  });
}

findings judge(const pair_set& pairs, subject what, const interference_coefficients& from) {
  const some_pairs all = pairs_of(pairs, what);
  return visit(what, from, [&]<class Law>(const Law& law) {
    findings f;
    f.what = what;
    f.seen = summary_of(errors_of(method<Law>::predict(law, all), all));
    return f;
  });
}

void test(findings& into, const pair_set& others, const pair_set* fitted,
          const interference_coefficients& from) {
  const some_pairs all = pairs_of(others, into.what);
  if (all.empty()) return;
  visit(into.what, from, [&]<class Law>(const Law& law) {
    const predictions predicted = method<Law>::predict(law, all);
    const std::vector<double> errors = errors_of(predicted, all);
    into.test = summary_of(errors);
    std::size_t at = 0;
    for (std::size_t p = 0; p < others.pairs().size(); ++p) {
      if (at == all.size() || &others.pairs()[p] != all[at]) continue;
      for (std::size_t i = 0; i < 2; ++i) into.test_predictions.push_back({p, i, predicted[at][i]});
      ++at;
    }
    if (fitted == nullptr) return;
    std::vector<double> known, unknown;
    for (std::size_t p = 0; p < all.size(); ++p) {
      bool in_fit = true;
      for (const corun_side& s : all[p]->row.side) in_fit &= fitted->models().contains(s.model);
      for (std::size_t i = 0; i < 2; ++i) (in_fit ? known : unknown).push_back(errors[2 * p + i]);
    }
    if (!known.empty()) into.test_known = summary_of(std::move(known));
    if (!unknown.empty()) into.test_new = summary_of(std::move(unknown));
  });
}

} // namespace interference
