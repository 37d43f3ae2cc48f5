// SPDX-License-Identifier: Apache-2.0
#include "padding/facts.hpp"

#include <gsched/core/error.hpp>
#include <gsched/job/checked_json.hpp>
#include <gsched/job/text_file_json.hpp>
#include <gsched/pad/room.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <utility>

namespace padding {

namespace {

using gsched::errc;
using gsched::error;
using json = nlohmann::json;
using fields = gsched::detail::json_fields;
using place = fields::place;

place at(std::string_view field) { return {fields::none, field, fields::none}; }

/// A number of [0, most].
double number(const fields& f, const json& node, std::string_view field, double most) {
  const json& v = f.member(node, at(field), "a number");
  if (!v.is_number() || !(v.get<double>() >= 0 && v.get<double>() <= most))
    f.fail(at(field), "is " + fields::show(v), "a number from 0 to " + std::to_string(most));
  return v.get<double>();
}

std::uint32_t whole(const fields& f, const json& node, std::string_view field, std::uint32_t most) {
  return f.whole<std::uint32_t>(node, at(field), 0, most);
}

void read_scaling(const fields& f, const json& node, gsched::operation& op) {
  const json& points = node["us_by_sms"];
  if (!points.is_object())
    f.fail(at("us_by_sms"), "is " + fields::show(points), "an object of times by SMs");
  for (const auto& [key, time] : points.items()) {
    std::uint32_t sms = 0;
    const auto [stop, ec] = std::from_chars(key.data(), key.data() + key.size(), sms);
    if (ec != std::errc{} || stop != key.data() + key.size() || sms == 0 || op.by_sms.full())
      f.fail(at("us_by_sms"), "has the key " + fields::show(json(key)),
             "at most " + std::to_string(op.by_sms.capacity()) + " counts of SMs");
    op.by_sms.push_back({gsched::sm_count{sms}, f.time_of(time, at("us_by_sms"), true)});
  }
  std::sort(op.by_sms.begin(), op.by_sms.end(),
            [](const auto& a, const auto& b) { return a.sms < b.sms; });
}

kernel_facts read_kernel(const fields& f, const json& node, const std::string& where,
                         const gsched::sim::preset& on) {
  if (!node.is_object()) f.fail({}, "is " + fields::show(node), "an object");
  constexpr std::uint32_t most = 0x7fffffff;
  kernel_facts k;
  k.name = f.label(node, at("name"));
  k.variant.kernel_time = f.time(node, at("kernel_us"), true);
  k.variant.block_time = f.time(node, at("block_us"), true);
  k.variant.blocks = whole(f, node, "blocks", most);
  k.variant.threads_per_block = whole(f, node, "threads_per_block", 1024);
  k.variant.registers_per_thread = whole(f, node, "registers_per_thread", 255);
  k.variant.shared_bytes = whole(f, node, "shared_bytes", most);
  k.variant = completed(k.variant, on.sm, on.sms);
  if (node.contains("level")) k.variant.level = whole(f, node, "level", on.sm.max_blocks);
  check(k.variant, where + " (" + k.name + ")");
  k.work.kernel = gsched::sim::operation_of(k.variant);
  k.work.blocks = k.variant.blocks;
  if (node.contains("memory")) k.work.memory = static_cast<float>(number(f, node, "memory", 1));
  if (node.contains("us_by_sms")) read_scaling(f, node, k.work.kernel);
  return k;
}

std::size_t named(const fields& f, const json& node, std::string_view field,
                  const std::vector<kernel_facts>& kernels) {
  const std::string& name = f.label(node, at(field));
  const auto found =
      std::find_if(kernels.begin(), kernels.end(), [&](const auto& k) { return k.name == name; });
  if (found == kernels.end())
    f.fail(at(field), "is " + fields::show(json(name)), "the name of one of the kernels");
  return static_cast<std::size_t>(found - kernels.begin());
}

pair_facts read_pair(const fields& f, const json& node, const std::vector<kernel_facts>& kernels,
                     const gsched::sim::preset& on) {
  if (!node.is_object()) f.fail({}, "is " + fields::show(node), "an object");
  pair_facts p;
  p.host = named(f, node, "host", kernels);
  p.guest = named(f, node, "guest", kernels);
  if (node.contains("guest_blocks"))
    p.guest_blocks =
        f.whole<std::uint32_t>(node, at("guest_blocks"), 1, kernels[p.guest].variant.blocks);
  if (node.contains("level"))
    p.level = f.whole<std::uint32_t>(node, at("level"), 1, on.sm.max_blocks);
  if (node.contains("measured")) {
    const json& m = node["measured"];
    const auto us = [&](std::string_view field) {
      return gsched::to_us(f.time(m, at(field), true));
    };
    p.measured = pair_times{us("alone_us"), us("together_us"), us("one_by_one_us")};
  }
  return p;
}

} // namespace

facts read_facts(const std::filesystem::path& file, const gsched::sim::preset& on) {
  constexpr std::size_t most = std::size_t{64} << 20;
  const std::string name = file.string();
  const std::string text = gsched::detail::whole_text(file, "a file of kernel facts", most);
  if (text.size() > most) throw error(errc::bad_profile, name + ": too large, expected 64 MiB");
  const fields whole_file(name);
  const json all = whole_file.parse(text, [](int, std::string_view) { return true; });
  if (!all.is_object()) whole_file.fail({}, "is " + fields::show(all), "an object");
  const auto each = [&](const char* list, auto read) {
    const json& nodes = whole_file.array(all, at(list));
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const std::string where = name + ": " + list + " " + std::to_string(i);
      read(fields(where), nodes[i], where);
    }
  };
  facts f;
  if (all.contains("device")) f.device = whole_file.label(all, at("device"));
  each("kernels", [&](const fields& of, const json& node, const std::string& where) {
    f.kernels.push_back(read_kernel(of, node, where, on));
  });
  if (all.contains("pairs")) {
    each("pairs", [&](const fields& of, const json& node, const std::string&) {
      f.pairs.push_back(read_pair(of, node, f.kernels, on));
    });
  } else {
    for (std::size_t a = 0; a < f.kernels.size(); ++a)
      for (std::size_t b = 0; b < f.kernels.size(); ++b) f.pairs.push_back({a, b, {}, {}, {}});
  }
  return f;
}

std::vector<pair_result> predict_pairs(const facts& f, const gsched::pad_options& o,
                                       const gsched::sim::preset& on) {
  gsched::sim::padded_kernels predictor(on);
  std::vector<pair_result> results;
  for (const pair_facts& p : f.pairs) {
    const kernel_facts& host = f.kernels[p.host];
    const kernel_facts& guest = f.kernels[p.guest];
    check_proxy(on.sm, host.variant, guest.variant, host.name + " with " + guest.name);
    gsched::pad_room room(host.variant, o);
    const std::uint32_t fit = room.take(guest.variant, guest.variant.blocks);
    pair_result r{host.name, guest.name, p.guest_blocks.value_or(fit), 0, {}, p.measured};
    r.level = std::min(host.variant.level, guest.variant.level);
    if (p.level) r.level = std::min(r.level, *p.level);
    if (r.guest_blocks > 0) {
      gsched::sim::padded_work part = guest.work;
      part.blocks = r.guest_blocks;
      r.predicted = predictor.predict(host.work, {&part, 1}, r.level);
    }
    results.push_back(std::move(r));
  }
  return results;
}

} // namespace padding
