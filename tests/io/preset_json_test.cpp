// SPDX-License-Identifier: Apache-2.0
#include <gsched/io/coefficients_json.hpp>
#include <gsched/io/preset_json.hpp>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

namespace fs = std::filesystem;
using namespace gsched;
using namespace gsched::sim;
using nlohmann::json;

namespace {

const fs::path shipped = fs::path(GSCHED_SOURCE_DIR) / "tools/data/presets/h200.json";

std::string written_preset(const preset& p, const preset_provenance& from = h200_provenance()) {
  std::ostringstream out;
  write_preset(out, p, from);
  return out.str();
}

json valid_preset() { return json::parse(written_preset(h200())); }

/// The refusal's line; empty when the text was accepted.
std::string preset_refusal(const std::string& text) {
  try {
    static_cast<void>(parse_preset(text, "f.json"));
  } catch (const error& e) {
    CHECK(e.code() == errc::bad_profile);
    const std::string line = e.what();
    CHECK(line.find('\n') == std::string::npos);
    CHECK(line.find(", expected ") != std::string::npos);
    return line;
  }
  return {};
}

std::string refusal_with(const char* pointer, const json& value) {
  json j = valid_preset();
  j[json::json_pointer(pointer)] = value;
  return preset_refusal(j.dump());
}

/// A field by its place in the file, and a change of just that member.
struct field {
  const char* pointer;
  std::function<void(preset&)> change;
};

void more(duration& d) { d += duration{7}; }
void more(double& x) { x *= 0.9; }
void more(std::uint32_t& n) { ++n; }
void more(sm_count& n) { n += sm_count{1}; }

#define FIELD(pointer, member)                                                                     \
  {                                                                                                \
    pointer, [](preset& p) { more(p.member); }                                                     \
  }
const std::vector<field> fields{
    {"/name", [](preset& p) { p.name = "mine"; }},
    {"/compute_capability", [](preset& p) { p.sm = limits_for(8, 0); }},
    FIELD("/sms", sms),
    FIELD("/partition_unit", partition_unit),
    FIELD("/hardware_queues", hardware_queues),
    FIELD("/queue_limit", queue_limit),
    FIELD("/resident_grids", resident_grids),
    FIELD("/max_lanes", max_lanes),
    FIELD("/host/launch_us", host.launch),
    FIELD("/host/graph_us", host.graph),
    FIELD("/host/graph_operation_us", host.graph_operation),
    FIELD("/host/start_us", host.start),
    FIELD("/host/start_operation_us", host.start_operation),
    FIELD("/host/segment_notice_us", host.segment_notification),
    FIELD("/host/block_notice_us", host.block_notification),
    FIELD("/host/poll_us", host.poll),
    FIELD("/host/take_us", host.take),
    FIELD("/host/evict_us", host.evict),
    FIELD("/gaps/launches_us", gaps.launches),
    FIELD("/gaps/segments_us", gaps.segments),
    FIELD("/copies/to_device_bytes_per_ns", copies.to_device_bytes_per_ns),
    FIELD("/copies/to_host_bytes_per_ns", copies.to_host_bytes_per_ns),
    FIELD("/copies/on_device_bytes_per_ns", copies.on_device_bytes_per_ns),
    FIELD("/copies/to_device_us", copies.to_device),
    FIELD("/copies/to_host_us", copies.to_host),
    FIELD("/copies/on_device_us", copies.on_device),
    FIELD("/laws/scaling/floor_us", laws.scaling.floor_us),
    FIELD("/laws/scaling/floor_part", laws.scaling.floor_part),
    FIELD("/laws/scaling/warps_to_fill", laws.scaling.warps_to_fill),
    FIELD("/laws/scaling/step", laws.scaling.step),
    FIELD("/laws/scaling/shared", laws.scaling.shared),
    FIELD("/laws/scaling/shared_exponent", laws.scaling.shared_exponent),
    FIELD("/laws/contention/l2_latency", laws.contention.l2_latency),
    FIELD("/laws/contention/dram_latency", laws.contention.dram_latency),
    FIELD("/laws/contention/warps", laws.contention.warps),
    FIELD("/laws/contention/l2", laws.contention.l2),
    FIELD("/laws/contention/dram", laws.contention.dram),
    FIELD("/laws/contention/older", laws.contention.older),
    FIELD("/laws/contention/clock", laws.contention.clock),
    FIELD("/laws/replay/gap_us", laws.replay.gap_us),
    FIELD("/laws/replay/start_us", laws.replay.start_us),
    FIELD("/laws/graph/scale", laws.graph.scale),
    FIELD("/laws/graph/gap_us", laws.graph.gap),
    FIELD("/laws/leaving/preamble_us", laws.preemption.preamble),
    FIELD("/laws/leaving/listing_us", laws.preemption.listing),
    FIELD("/laws/slack", laws.slack),
    {"/laws/contended", [](preset& p) { p.laws.contended = !p.laws.contended; }},
    FIELD("/yields/gate_every", yields.gate_every),
    FIELD("/yields/gate_us", yields.gate),
    FIELD("/yields/hold_us", yields.hold),
    FIELD("/yields/held_us", yields.held),
    FIELD("/yields/going_on_us", yields.going_on),
    FIELD("/yields/flag_us", yields.flag),
    FIELD("/yields/flagged_us", yields.flagged),
    FIELD("/yields/passing_us", yields.passing),
};
#undef FIELD

} // namespace

TEST_CASE("the simulated H200 has the fitted law of contention") {
  const interference_coefficients fitted =
      load_coefficients(fs::path(GSCHED_SOURCE_DIR) / "tools/data/interference/h200.json");
  CHECK(h200().laws.contention == fitted.contention);
  CHECK(h200().laws.replay.gap_us == fitted.replay.gap_us);
  CHECK(h200().laws.replay.start_us == fitted.replay.start_us);
}

TEST_CASE("the shipped preset is h200()") {
  preset_provenance from;
  CHECK(written_preset(load_preset(shipped, &from)) == written_preset(h200()));
  CHECK(from == h200_provenance());
  std::ifstream in(shipped, std::ios::binary);
  CHECK(std::string{std::istreambuf_iterator<char>(in), {}} == written_preset(h200()));
}

TEST_CASE("each field has its own key and is read back unchanged") {
  const json before = valid_preset().flatten();
  std::size_t visited = 0;
  for (const auto& [key, value] : before.items())
    if (key.rfind("/measured", 0) != 0 && key != "/gsched_preset") ++visited;
  CHECK(visited == fields.size());
  for (const field& f : fields) {
    CAPTURE(f.pointer);
    preset p = h200();
    f.change(p);
    const std::string text = written_preset(p);
    const json after = json::parse(text).flatten();
    REQUIRE(after.size() == before.size());
    for (const auto& item : before.items()) {
      const std::string key = item.key();
      const json& value = item.value();
      CAPTURE(key);
      CHECK((after.at(key) != value) == (key == f.pointer));
    }
    CHECK(written_preset(parse_preset(text, "again")) == text);
  }
}

TEST_CASE("a file from before lanes yielded keeps the defaults") {
  json j = valid_preset();
  j.erase("yields");
  j["laws"].erase("leaving");
  CHECK(written_preset(parse_preset(j.dump(), "old")) == written_preset(h200()));
  CHECK(refusal_with("/yields", 1).find("/yields is 1, expected an object") != std::string::npos);
  CHECK(refusal_with("/yields/colour", 1).find("/yields has the unknown key") != std::string::npos);
}

TEST_CASE("members are read back, not only their text") {
  preset p = h200();
  p.host.take = duration{1'234'567};
  p.copies.to_host_bytes_per_ns = 0.1 + 0.2; // 17 digits
  p.laws.slack = 1.0 / 3;
  p.laws.contended = false;
  p.queue_limit = 17;
  preset_provenance from = h200_provenance();
  from.host = "a \"host\" \xc3\xa9";
  from.kept = {"/laws/scaling", "/laws/contention"};
  preset_provenance from_again;
  const preset again = parse_preset(written_preset(p, from), "again", &from_again);
  CHECK(again.host.take == p.host.take);
  CHECK(again.copies.to_host_bytes_per_ns == p.copies.to_host_bytes_per_ns);
  CHECK(again.laws.slack == p.laws.slack);
  CHECK_FALSE(again.laws.contended);
  CHECK(again.queue_limit == 17);
  CHECK(again.sm.max_warps == p.sm.max_warps);
  CHECK(from_again == from);
}

TEST_CASE("missing, unknown, mistyped and out-of-range fields are refused in one line") {
  const json flat = valid_preset().flatten();
  for (const auto& item : flat.items()) {
    const std::string pointer = item.key();
    const json& value = item.value();
    if (pointer == "/measured/kept") continue;
    CAPTURE(pointer);
    json j = valid_preset();
    const json::json_pointer at(pointer);
    j[at.parent_pointer()].erase(at.back());
    CHECK(preset_refusal(j.dump()).find("f.json: " + pointer + " is missing") == 0);
    CHECK(refusal_with(pointer.c_str(), json::array()).find("f.json: " + pointer + " is") == 0);
    if (!value.is_string() && !value.is_boolean()) {
      CHECK(refusal_with(pointer.c_str(), -1).find("f.json: " + pointer + " is -1") == 0);
      CHECK(refusal_with(pointer.c_str(), "1").find("f.json: " + pointer + " is \"1\"") == 0);
      CHECK(refusal_with(pointer.c_str(), 1e300).find("f.json: " + pointer + " is 1e+300") == 0);
    }
  }
  CHECK(refusal_with("/sms", 0).find("/sms is 0, expected a whole number, 1 to 4096") !=
        std::string::npos);
  CHECK(refusal_with("/sms", 1.5).find("/sms is 1.5") != std::string::npos);
  for (const char* rate : {"to_device", "to_host", "on_device"}) {
    const std::string pointer = "/copies/" + std::string(rate) + "_bytes_per_ns";
    CHECK(refusal_with(pointer.c_str(), 1e-300).find("expected a number from 0.001") !=
          std::string::npos);
    CHECK_FALSE(refusal_with(pointer.c_str(), 1e8).empty());
  }
  for (const char* divisor : {"/laws/scaling/warps_to_fill", "/laws/graph/scale"})
    CHECK(refusal_with(divisor, 1e-300).find("expected a number from 0.001") != std::string::npos);
  CHECK(refusal_with("/name", "").find("/name is empty") != std::string::npos);
  CHECK(refusal_with("/name", "a\nb").find("/name has a control character") != std::string::npos);
  for (const char* part : {"/laws/contention/l2", "/laws/contention/dram"})
    CHECK(refusal_with(part, 1e-3).find("expected a number from 0.01") != std::string::npos);
  CHECK(refusal_with("/gsched_preset", 1).find("/gsched_preset is 1") != std::string::npos);
  CHECK(refusal_with("/compute_capability", "6.1").find("compute capability") != std::string::npos);
  CHECK(refusal_with("/host/block_notice_us", 3.9).find("at most that") != std::string::npos);
  CHECK(refusal_with("/host/colour", 1).find("/host has the unknown key \"colour\"") !=
        std::string::npos);
  CHECK(refusal_with("/launch_us", 1).find("the document has the unknown key") !=
        std::string::npos);
  CHECK(refusal_with("/measured/kept/0", 1).find("/measured/kept/0 is 1") != std::string::npos);
  CHECK(refusal_with("/host", 1).find("/host is 1, expected an object") != std::string::npos);
  CHECK(preset_refusal("").find("f.json: empty") == 0);
  CHECK(preset_refusal("[]").find("an object") != std::string::npos);
  CHECK(preset_refusal("{\"a\":1,").find("ends too early") != std::string::npos);
  CHECK(preset_refusal(R"({"gsched_preset": 3, "gsched_preset": 3})").find("twice") !=
        std::string::npos);
  CHECK(preset_refusal(std::string(max_preset_bytes + 1, ' ')).find("too large") !=
        std::string::npos);
}

TEST_CASE("errors of files name the path") {
  const auto refused = [](const fs::path& path) {
    try {
      static_cast<void>(load_preset(path));
    } catch (const error& e) {
      CHECK(e.code() == errc::io);
      return std::string(e.what());
    }
    return std::string{};
  };
  CHECK(refused("none.json").find("none.json: cannot be opened") == 0);
  CHECK(refused(shipped.parent_path()).find("is a directory") != std::string::npos);
  const fs::path path =
      fs::temp_directory_path() / ("gsched_preset_" + std::to_string(getpid()) + ".json");
  write_preset(path, h200());
  CHECK(written_preset(load_preset(path)) == written_preset(h200()));
  fs::remove(path);
  CHECK_THROWS_WITH_AS(write_preset(fs::path("none/p.json"), h200()),
                       "none/p.json: cannot be opened, expected a writable path", error);
}

TEST_CASE("a preset that a file cannot hold is refused") {
  const auto refused = [](const std::function<void(preset&)>& change) {
    preset p = h200();
    change(p);
    std::ostringstream out;
    CHECK_THROWS_AS(write_preset(out, p), error);
    CHECK(out.str().empty());
  };
  refused([](preset& p) { p.sm.max_threads = 1024; });
  refused([](preset& p) { p.sm.shared_splits[0] = 1; });
  refused([](preset& p) { p.sm.major = 3; });
  refused([](preset& p) { p.sms = sm_count{0}; });
  refused([](preset& p) { p.host.poll = duration{-1}; });
  refused([](preset& p) { p.laws.slack = 2; });
  refused([](preset& p) { p.name = "\xff"; });
  refused([](preset& p) { p.name = ""; });
}

TEST_CASE("another GPU's preset is described in one line") {
  const preset p = h200();
  const gpu_identity h{"NVIDIA H200", 9, 0, sm_count{132}};
  CHECK(mismatch(p, h200_provenance(), h).empty());
  CHECK(mismatch(p, h200_provenance(), {"NVIDIA A100", 8, 0, sm_count{108}}) ==
        "preset sim:h200: of NVIDIA H200, 132 SMs of compute capability 9.0, expected one of this "
        "GPU: NVIDIA A100, 108 SMs of compute capability 8.0");
  gpu_identity other = h;
  other.name = "NVIDIA H100";
  CHECK_FALSE(mismatch(p, h200_provenance(), other).empty());
  CHECK(mismatch(p, {}, other).empty()); // a preset without a GPU name
  other.sms = sm_count{114};
  CHECK_FALSE(mismatch(p, {}, other).empty());
  other = h;
  other.minor = 1;
  CHECK_FALSE(mismatch(p, h200_provenance(), other).empty());
}
