// SPDX-License-Identifier: Apache-2.0
#include "common/report/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <ostream>
#include <utility>

namespace common {

namespace {

using gsched::duration;

double ms(duration d) { return static_cast<double>(d.count()) / 1e6; }

/// The eligible row with the best value; none if all are equal.
std::size_t winner(const column& c, const std::vector<bool>& eligible) {
  constexpr std::size_t no_row = ~std::size_t{0};
  if (c.wanted == best::none) return no_row;
  std::size_t first = no_row;
  bool differ = false;
  for (std::size_t i = 0; i < c.values.size(); ++i) {
    if (!eligible[i] || std::isnan(c.values[i])) continue;
    if (first == no_row) {
      first = i;
      continue;
    }
    differ = differ || c.values[i] != c.values[first];
    if (c.wanted == best::least ? c.values[i] < c.values[first] : c.values[i] > c.values[first])
      first = i;
  }
  return differ ? first : no_row;
}

} // namespace

std::vector<column> latency_columns(std::span<const latency_summary> of) {
  double least = 1e9;
  for (const latency_summary& s : of)
    if (s.p50 > duration::zero()) least = std::min(least, ms(s.p50));
  const std::string format = least < 0.1 ? "{:.4f}" : least < 1 ? "{:.3f}" : "{:.2f}";
  std::vector<column> columns;
  const auto add = [&](const char* head, duration latency_summary::*field) {
    column c{head, {}, best::least, format};
    for (const latency_summary& s : of) c.values.push_back(ms(s.*field));
    columns.push_back(std::move(c));
  };
  add("mean ms", &latency_summary::mean);
  add("p50", &latency_summary::p50);
  add("p90", &latency_summary::p90);
  add("p99", &latency_summary::p99);
  add("max", &latency_summary::max);
  return columns;
}

void print(std::ostream& out, const std::string& head_of_names, std::span<const std::string> names,
           const std::vector<column>& columns, const std::vector<bool>& eligible, bool terminal) {
  std::size_t name_width = head_of_names.size();
  for (const std::string& name : names) name_width = std::max(name_width, name.size());
  std::vector<std::vector<std::string>> cells;
  std::string head = fmt::format("{:<{}}", head_of_names, name_width);
  for (const column& c : columns) {
    std::size_t width = c.head.size();
    auto& texts = cells.emplace_back();
    for (const double v : c.values) {
      texts.push_back(std::isnan(v) ? "-" : fmt::format(fmt::runtime(c.format), v));
      width = std::max(width, texts.back().size());
    }
    for (std::string& t : texts) t.insert(0, width - t.size(), ' ');
    head += fmt::format("  {:>{}} ", c.head, width);
  }
  out << head << '\n';
  for (std::size_t i = 0; i < names.size(); ++i) {
    out << fmt::format("{:<{}}", names[i], name_width);
    for (std::size_t k = 0; k < columns.size(); ++k) {
      const bool won = winner(columns[k], eligible) == i;
      out << "  " << (won && terminal ? "\x1b[1m" : "") << cells[k][i] << (won ? "*" : " ")
          << (won && terminal ? "\x1b[0m" : "");
    }
    out << '\n';
  }
}

} // namespace common
