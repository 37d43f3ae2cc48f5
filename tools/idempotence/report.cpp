// SPDX-License-Identifier: Apache-2.0
#include "idempotence/report.hpp"

#include <gsched/preempt/restrict_preemptibility.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <ostream>
#include <string>

namespace idempotence {

namespace {

using gsched::restart;
using json = nlohmann::ordered_json;
using verdict_list = std::vector<gsched::idempotence_verdict>;

/// By number, as in operation_kind.
constexpr std::array<const char*, 6> kinds{"kernel",       "memcpy",     "memset",
                                           "event record", "event wait", "host function"};

const char* kind_of(const gsched::operation_access& o) {
  return kinds.at(static_cast<std::size_t>(o.kind));
}

std::string name_of(const gsched::operation_access& o) {
  constexpr std::size_t longest = 28;
  if (o.name.size() <= longest) return o.name;
  return o.name.substr(0, longest - 3) + "...";
}

std::string verdict_text(const gsched::idempotence_verdict& v) {
  if (v.how == restart::alone) return "alone";
  if (v.how == restart::never) return "wait for it";
  return fmt::format("from {}", v.group_first);
}

const char* may(const finding& f, const gsched::clobber& c) {
  return f.trace.operations[c.overwritten_by].assumed ? "may overwrite" : "overwrites";
}

std::string bytes_of(const gsched::byte_range& r) {
  return fmt::format("{} bytes at {:#x}", r.bytes(), r.first);
}

std::string reason(const finding& f, std::size_t k, const gsched::idempotence_verdict& v) {
  const gsched::operation_access& o = f.trace.operations[k];
  if (v.declared)
    return fmt::format("declared {}", v.how == restart::alone ? "idempotent" : "to clobber");
  if (v.barrier) return fmt::format("a {} runs once", kind_of(o));
  if (!v.why)
    return v.assumed ? "overwrites none of its inputs, if it keeps to its arguments"
                     : "overwrites none of its inputs";
  const std::string own = fmt::format("{} its input, {}", may(f, *v.own), bytes_of(v.own->range));
  const gsched::clobber& c = *v.why;
  if (c == *v.own) return own;
  const std::string other =
      c.read_by == c.overwritten_by
          ? fmt::format("{} {} its own", c.overwritten_by, may(f, c))
          : fmt::format("{} {} that of {}", c.overwritten_by, may(f, c), c.read_by);
  return fmt::format("{}; and {}, {}", own, other, bytes_of(c.range));
}

struct counts {
  std::size_t alone = 0, in_groups = 0, waited_for = 0, longest = 0;
  std::size_t at_checkpoints = 0; ///< kernels that may leave there
};

counts count(const finding& f, const verdict_list& verdicts) {
  counts n;
  for (std::size_t k = 0; k < verdicts.size(); ++k) {
    if (f.trace.operations[k].kind != gsched::operation_kind::kernel) continue;
    if (gsched::may_start_anew(f.trace.operations[k], verdicts[k])) ++n.at_checkpoints;
    if (verdicts[k].how == restart::alone) ++n.alone;
    if (verdicts[k].how == restart::never) ++n.waited_for;
    if (verdicts[k].how != restart::with_group) continue;
    ++n.in_groups;
    n.longest = std::max(n.longest, k - verdicts[k].group_first + 1);
  }
  return n;
}

json clobber_json(const gsched::clobber& c) {
  return {{"first", c.range.first},
          {"bytes", c.range.bytes()},
          {"read_by", c.read_by},
          {"overwritten_by", c.overwritten_by}};
}

json operation_json(const finding& f, std::size_t k, const gsched::idempotence_verdict& v) {
  static constexpr std::array<const char*, 3> words{"alone", "group", "wait"};
  const gsched::operation_access& o = f.trace.operations[k];
  json j{{"index", k},
         {"kind", kind_of(o)},
         {"name", o.name},
         {"bytes_read", o.reads.bytes()},
         {"bytes_written", (o.writes | o.writes_first).bytes()},
         {"verdict", words.at(static_cast<std::size_t>(v.how))},
         {"restart_from", v.how == restart::never ? json(nullptr) : json(v.group_first)},
         {"barrier", v.barrier},
         {"declared", v.declared},
         {"assumed", v.assumed},
         {"reason", reason(f, k, v)}};
  if (v.own) j["overwrites_its_input"] = clobber_json(*v.own);
  if (v.why) j["no_shorter_group"] = clobber_json(*v.why);
  if (o.kind != gsched::operation_kind::kernel) return j;
  j["may_leave"] = gsched::may_start_anew(o, v) ? "at checkpoints" : "between blocks";
  if (f.checked) j["second_run_changes"] = f.changed.contains(k);
  return j;
}

} // namespace

void print(std::ostream& out, const finding& f, const verdict_list& verdicts) {
  out << fmt::format("{}, {}\n", f.trace.model, f.how);
  out << fmt::format("{:>4}  {:<13} {:<28} {:<12} {}\n", "", "", "operation", "run again", "why");
  for (std::size_t k = 0; k < verdicts.size(); ++k) {
    const gsched::operation_access& o = f.trace.operations[k];
    out << fmt::format("{:>4}  {:<13} {:<28} {:<12} {}\n", k, kind_of(o), name_of(o),
                       verdict_text(verdicts[k]), reason(f, k, verdicts[k]));
    if (const auto c = f.changed.find(k); c != f.changed.end())
      out << fmt::format("{:>6}run twice it changes {} bytes at {:#x}\n", "", c->second.bytes(),
                         c->second.first);
  }
  const counts n = count(f, verdicts);
  const std::size_t kernels = n.alone + n.in_groups + n.waited_for;
  out << fmt::format("{} kernels: {} alone, {} with a group", kernels, n.alone, n.in_groups);
  if (n.in_groups > 0) out << fmt::format(" of up to {}", n.longest);
  out << fmt::format(", {} to wait for\n", n.waited_for);
  out << fmt::format("with source they may leave: {} at checkpoints, {} between blocks alone\n",
                     n.at_checkpoints, kernels - n.at_checkpoints);
}

void write_json(std::ostream& out, const std::vector<finding>& findings,
                const std::vector<verdict_list>& verdicts) {
  json runs = json::array();
  for (std::size_t i = 0; i < findings.size(); ++i) {
    const finding& f = findings[i];
    const counts n = count(f, verdicts[i]);
    json operations = json::array();
    for (std::size_t k = 0; k < verdicts[i].size(); ++k)
      operations.push_back(operation_json(f, k, verdicts[i][k]));
    runs.push_back({{"model", f.trace.model},
                    {"how", f.how},
                    {"kernels",
                     {{"alone", n.alone},
                      {"with_group", n.in_groups},
                      {"longest_group", n.longest},
                      {"wait", n.waited_for}}},
                    {"operations", std::move(operations)}});
  }
  out << json{{"runs", std::move(runs)}}.dump(2) << '\n';
}

} // namespace idempotence
