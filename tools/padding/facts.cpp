// SPDX-License-Identifier: Apache-2.0
#include "padding/facts.hpp"

#include <gsched/io/csv_table.hpp>
#include <gsched/preempt/colocate/capacity.hpp>

#include <algorithm>
#include <cstddef>
#include <utility>

namespace padding {

namespace {

/// Columns of one kernel, in the order in which read_kernel takes them.
constexpr const char* needed[] = {"function",     "kernel_ns", "block_ns", "registers",
                                  "shared_bytes", "threads",   "blocks"};
constexpr const char* optional[] = {"variant", "shape", "level", "bytes"};
constexpr const char* of_pair[] = {"be_padded_blocks", "level",          "rt_plain_us",
                                   "rt_padded_us",     "whole_plain_us", "whole_padded_us"};

kernel_facts read_kernel(const gsched::csv_table& t, std::size_t first, std::size_t second,
                         const std::string& where, const gsched::sim::preset& on) {
  kernel_facts k;
  k.name = t.text(first);
  for (const std::size_t more : {second, second + 1})
    if (t.has(more)) k.name += " " + t.text(more);
  gsched::kernel_variant& v = k.variant;
  v.kernel_time = gsched::duration{t.count(first + 1)};
  v.block_time = gsched::duration{t.count(first + 2)};
  v.registers_per_thread = t.count(first + 3, 0);
  v.shared_bytes = t.count(first + 4, 0);
  v.threads_per_block = t.count(first + 5);
  v.blocks = t.count(first + 6);
  v = completed(v, on.sm, on.sms);
  if (t.has(second + 2)) v.level = t.count(second + 2);
  check(v, where + k.name);
  k.work.kernel = gsched::sim::operation_of(v);
  k.work.blocks = v.blocks;
  if (t.has(second + 3)) {
    const double rate = t.count(second + 3, 0) / static_cast<double>(v.kernel_time.count());
    k.work.takes.emplace();
    k.work.takes->of(gsched::resource::dram) =
        std::min(1.0, rate / on.copies.on_device_bytes_per_ns);
  }
  return k;
}

/// `open(needed_columns, optional_columns)` makes the table, whose name stands for it in errors.
template <class Open>
std::vector<pair_facts> read_table(Open open, const std::string& name,
                                   const gsched::sim::preset& on) {
  std::vector<std::string> columns, more;
  for (const char* role : {"rt_", "be_"}) {
    for (const char* each : needed) columns.push_back(std::string(role) + each);
    for (const char* each : optional) more.push_back(std::string(role) + each);
  }
  more.insert(more.end(), std::begin(of_pair), std::end(of_pair));
  const std::size_t role = std::size(needed), second = 2 * role,
                    pair = second + 2 * std::size(optional);
  gsched::csv_table t = open(columns, more);
  std::vector<pair_facts> pairs;
  while (t.next()) {
    const std::string where = name + ": pair " + std::to_string(pairs.size() + 1) + ": ";
    pair_facts p;
    p.real_time = read_kernel(t, 0, second, where, on);
    p.corunner = read_kernel(t, role, second + std::size(optional), where, on);
    if (t.has(pair)) p.blocks = t.count(pair);
    if (t.has(pair + 1)) p.level = t.count(pair + 1);
    if (t.has(pair + 2) && t.has(pair + 3) && t.has(pair + 4) && t.has(pair + 5))
      p.measured = pair_times{t.us(pair + 2), t.us(pair + 3), t.us(pair + 4), t.us(pair + 5)};
    pairs.push_back(std::move(p));
  }
  if (pairs.empty()) t.refuse("no pairs", "a line for each");
  return pairs;
}

} // namespace

std::vector<pair_facts> read_facts(const std::filesystem::path& file,
                                   const gsched::sim::preset& on) {
  return read_table(
      [&](const auto& first, const auto& second) { return gsched::csv_table(file, first, second); },
      file.string(), on);
}

std::vector<pair_facts> read_facts(std::unique_ptr<std::istream> text, const std::string& name,
                                   const gsched::sim::preset& on) {
  return read_table(
      [&](const auto& first, const auto& second) {
        return gsched::csv_table(std::move(text), name, first, second);
      },
      name, on);
}

std::vector<pair_result> predict_pairs(const std::vector<pair_facts>& pairs,
                                       const gsched::pad_options& o,
                                       const gsched::sim::preset& on) {
  gsched::sim::padded_kernels predictor(on);
  std::vector<pair_result> results;
  for (const pair_facts& p : pairs) {
    const gsched::kernel_variant& host = p.real_time.variant;
    const gsched::kernel_variant& corunner = p.corunner.variant;
    check_proxy(on.sm, host, corunner, p.real_time.name + " with " + p.corunner.name);
    gsched::pad_capacity room(host, o);
    const std::uint32_t fit = room.take(corunner, corunner.blocks);
    pair_result r{p.real_time.name, p.corunner.name, p.blocks.value_or(fit), 0, {}, p.measured};
    r.level = std::min({host.level, corunner.level, p.level.value_or(host.level)});
    if (r.blocks > 0) {
      gsched::sim::padded_work part = p.corunner.work;
      part.blocks = r.blocks;
      r.predicted = predictor.predict(p.real_time.work, {&part, 1}, r.level);
    }
    results.push_back(std::move(r));
  }
  return results;
}

} // namespace padding
