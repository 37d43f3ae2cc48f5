// SPDX-License-Identifier: Apache-2.0
#include "serve_mix/values.hpp"

#include "common/catalogue.hpp"

#include <algorithm>
#include <fstream>
#include <system_error>
#include <utility>

#include <gsched/policy/gamma_boost.hpp>
#include <gsched/policy/names.hpp>

#include <fmt/format.h>

namespace fs = std::filesystem;

namespace serve_mix {

std::vector<mix_entry> to_mix(const std::string& mix, const std::vector<std::string>& words) {
  const catalogue known(words);
  std::vector<mix_entry> entries;
  if (mix.empty() && known.only_files()) {
    for (const auto& [name, file] : known.files()) entries.push_back({name, 1.0, file});
    return entries;
  }
  for (const std::string& item : to_list("--mix", mix.empty() ? default_mix : mix)) {
    const std::size_t equals = item.rfind('=');
    mix_entry entry;
    entry.name = item.substr(0, equals);
    if (equals != std::string::npos)
      entry.weight =
          to_number("--mix", std::string_view(item).substr(equals + 1), {0, 1e6, true, "a weight"});
    entry.profile = known.find("--mix", entry.name);
    if (std::any_of(entries.begin(), entries.end(),
                    [&](const mix_entry& e) { return e.name == entry.name; }))
      refuse("--mix", in_quotes(entry.name) + " is named twice", "each model once");
    entries.push_back(std::move(entry));
  }
  return entries;
}

std::vector<double> to_weights(const std::string& words, std::uint32_t clients) {
  std::vector<double> weights;
  for (std::size_t from = 0; from <= words.size();) { // clients may have equal ones
    const std::size_t comma = std::min(words.find(',', from), words.size());
    weights.push_back(to_number("--weights", std::string_view(words).substr(from, comma - from),
                                {0, 1e6, true, "a weight"}));
    from = comma + 1;
  }
  if (weights.size() > clients)
    refuse("--weights", fmt::format("{} weights for {} clients", weights.size(), clients),
           "at most one for each");
  return weights;
}

std::optional<slo_rule> to_slo(const std::string& word) {
  if (word == "none") return std::nullopt;
  slo_rule slo;
  slo.text = word;
  if (word.find('x') == word.npos && word.find(':') == word.npos) {
    const number_range range{0, 1e6, true, "none, 2x, 2x:5x or milliseconds"};
    slo.time = gsched::from_us(1e3 * to_number("--slo", word, range));
    return slo;
  }
  slo.of_solo = true;
  const auto multiple = [&](std::string_view part) {
    if (!part.ends_with('x')) refuse("--slo", in_quotes(word), "none, milliseconds, 2x or 2x:5x");
    return to_number("--slo", part.substr(0, part.size() - 1),
                     {0, 1e6, true, "2x or 2x:5x, times the model's time alone"});
  };
  const std::string_view all = word;
  const std::size_t colon = std::min(all.find(':'), all.size());
  slo.least = slo.most = multiple(all.substr(0, colon));
  if (colon < all.size()) slo.most = multiple(all.substr(colon + 1));
  if (slo.least > slo.most)
    refuse("--slo", in_quotes(word) + " falls", "the smaller multiple first");
  return slo;
}

arrival_options to_arrivals(const std::string& word) {
  constexpr std::string_view option = "--arrivals";
  const std::size_t colon = word.find(':');
  const std::string law = word.substr(0, colon);
  const std::string value = colon == std::string::npos ? "" : word.substr(colon + 1);
  arrival_options a;
  a.text = word;
  if (word == "poisson") return a;
  if (law == "lognormal") {
    a.law = arrival_law::lognormal;
    a.sigma = to_number(option, value, {0, 10, true, "lognormal:SIGMA, a sigma"});
  } else if (law == "closed") {
    a.law = arrival_law::closed;
    a.in_flight = static_cast<std::uint32_t>(to_count(option, value, 1, 1'000'000));
  } else if (law == "trace") {
    a.law = arrival_law::trace;
    a.file = value;
    std::error_code ignored;
    if (fs::is_directory(a.file, ignored) || !std::ifstream(a.file))
      refuse(option, "trace file " + in_quotes(value) + " cannot be opened", "a readable file",
             gsched::errc::io);
    note_input(option, a.file);
  } else {
    refuse(option, "unknown law " + in_quotes(word),
           "poisson, lognormal:SIGMA, closed:N or trace:FILE", gsched::errc::unknown_name);
  }
  return a;
}

std::vector<std::string> to_policies(const std::string& words) {
  const auto& known = policy_names();
  if (words == "all") return known;
  std::vector<std::string> policies;
  for (std::string& name : to_list("--policy", words)) {
    const bool has_factor = name.starts_with(std::string(gsched::gamma_boost::name) + ":");
    if (has_factor) static_cast<void>(gsched::factor_of(name));
    if (!has_factor && std::find(known.begin(), known.end(), name) == known.end())
      refuse("--policy", "unknown policy " + in_quotes(name),
             fmt::format("all, or some of {}", fmt::join(known, ",")), gsched::errc::unknown_name);
    const auto is_same = [&](const std::string& other) {
      return gsched::name_without_factor(other) == gsched::name_without_factor(name) &&
             gsched::factor_of(other) == gsched::factor_of(name);
    };
    if (const auto other = std::find_if(policies.begin(), policies.end(), is_same);
        other != policies.end())
      refuse("--policy",
             in_quotes(name) + (name == *other ? "" : ", that is " + *other + ",") +
                 " is named twice",
             "each policy once");
    policies.push_back(std::move(name));
  }
  return policies;
}

} // namespace serve_mix
