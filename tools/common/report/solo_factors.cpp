// SPDX-License-Identifier: Apache-2.0
#include "common/report/solo_factors.hpp"

#include <gsched/io/csv_table.hpp>
#include <gsched/io/solo_csv.hpp>

#include <fmt/format.h>

#include <cstddef>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

namespace common {

using namespace gsched;

void write_factors(std::ostream& out, const std::filesystem::path& solo, const row_change& change) {
  std::vector<solo_metrics> known =
      read_solo_metrics(csv_table(solo, solo_columns(), more_solo_columns()));
  csv_table rows(solo, solo_columns());
  std::vector<std::size_t> kept; // columns but those that are changed
  const std::vector<std::string>& names = rows.header();
  for (std::size_t i = 0; i < names.size(); ++i)
    if (names[i] != "sensitivity" && names[i] != "pressure" && names[i] != "l2_loss" &&
        names[i] != "start_loss_us" && names[i] != "mean_pressure")
      kept.push_back(i);
  for (const std::size_t i : kept) out << names[i] << ',';
  out << "sensitivity,pressure,l2_loss,start_loss_us,mean_pressure\n";
  for (solo_metrics& m : known) {
    if (!rows.next()) break;
    for (const std::size_t i : kept) out << rows.fields()[i] << ',';
    change(m);
    const auto number = [](const std::optional<double>& x) {
      return x ? fmt::format("{}", *x) : std::string("-");
    };
    out << fmt::format("{},{},{},{},{}\n", m.factors.sensitivity, m.factors.pressure,
                       number(m.lost.part), number(m.at_start.us), m.mean_pressure);
  }
}

} // namespace common
