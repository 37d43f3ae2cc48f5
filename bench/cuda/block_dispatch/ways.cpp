// SPDX-License-Identifier: Apache-2.0
#include "block_dispatch/way.hpp"

#include <gsched/core/time.hpp>
#include <gsched/occupancy/accountant.hpp>

#include <utility>

namespace block_dispatch {

std::vector<way> all_ways() {
  const auto aggregate = [](std::string name, double fill, double us) {
    way w;
    w.name = std::move(name);
    w.by = account::aggregate;
    w.overshoot_fill = fill;
    w.overshoot_us = us;
    return w;
  };
  const auto blocks = [](std::string name, unsigned overshoot) {
    way w;
    w.name = std::move(name);
    w.by = account::block_level;
    w.overshoot_blocks = overshoot;
    w.instrumented = true;
    return w;
  };
  const gsched::accountant_options defaults;
  way segments =
      aggregate("segments", defaults.overshoot_fill, gsched::to_us(defaults.overshoot_time));
  segments.whole = true;
  way words =
      aggregate("aggregate_words", defaults.overshoot_fill, gsched::to_us(defaults.overshoot_time));
  words.instrumented = true;
  way plain;
  plain.name = "streams";
  way priorities = plain;
  priorities.name = "priorities";
  priorities.priorities = true;
  way none;
  none.name = "none";
  none.by = account::none;
  const auto most = static_cast<unsigned>(defaults.overshoot_blocks);
  way block_segments = blocks("block_segments", most);
  block_segments.whole = true;
  way every_block = block_segments; // the SM of each block is known
  every_block.name = "every_block";
  every_block.group_blocks = 1;
  way each_sm = every_block;
  each_sm.name = "each_sm";
  each_sm.by = account::each_sm;
  return {plain,
          priorities,
          none,
          segments,
          aggregate("aggregate", defaults.overshoot_fill, gsched::to_us(defaults.overshoot_time)),
          aggregate("aggregate_1", 1, 20),
          aggregate("aggregate_0", 0, 0),
          words,
          blocks("blocks", most),
          block_segments,
          every_block,
          each_sm};
}

} // namespace block_dispatch
