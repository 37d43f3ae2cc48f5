// SPDX-License-Identifier: Apache-2.0
#include <gsched/cuda_tools/power.hpp>

#include <gsched/core/error.hpp>
#include <gsched/cuda/error.hpp>

#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <thread>
#include <utility>

namespace gsched::cuda {

/// The part of NVML's interface that is used here, as its header is not always installed.
struct nvml {
  using result = int; // 0: success
  using device = struct device_handle*;
  struct utilisation {
    unsigned gpu, memory;
  };
  static constexpr unsigned sm_clock = 1, memory_clock = 2; // nvmlClockType_t
  static constexpr unsigned gpu_sensor = 0;                 // nvmlTemperatureSensors_t

  result (*init)() = nullptr;
  const char* (*text)(result) = nullptr;
  result (*by_bus)(const char*, device*) = nullptr;
  result (*clock)(device, unsigned, unsigned*) = nullptr;
  result (*power)(device, unsigned*) = nullptr;
  result (*energy)(device, unsigned long long*) = nullptr;
  result (*limit)(device, unsigned*) = nullptr;
  result (*temperature)(device, unsigned, unsigned*) = nullptr;
  result (*rates)(device, utilisation*) = nullptr;
  result (*reasons)(device, unsigned long long*) = nullptr;

  /// Loads and initialises the library once; it stays.
  static const nvml& loaded() {
    static const nvml functions = load();
    return functions;
  }

  void check(result r, const char* doing) const {
    if (r != 0) throw error(errc::device_failed, std::string("NVML: ") + doing + ": " + text(r));
  }

private:
  static nvml load() {
    constexpr const char* file = "libnvidia-ml.so.1";
    void* const library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr)
      throw error(errc::no_device,
                  std::string("NVML: ") + file + " not found, expected that of the driver");
    nvml all;
    const auto find = [&](auto& into, const char* name, bool needed = true) {
      into = reinterpret_cast<std::remove_reference_t<decltype(into)>>(dlsym(library, name));
      if (into == nullptr && needed)
        throw error(errc::no_device, std::string("NVML: no ") + name + " in " + file +
                                         ", expected that of a newer driver");
    };
    find(all.init, "nvmlInit_v2");
    find(all.text, "nvmlErrorString");
    find(all.by_bus, "nvmlDeviceGetHandleByPciBusId_v2");
    find(all.clock, "nvmlDeviceGetClockInfo");
    find(all.power, "nvmlDeviceGetPowerUsage");
    find(all.energy, "nvmlDeviceGetTotalEnergyConsumption", false);
    find(all.limit, "nvmlDeviceGetEnforcedPowerLimit", false);
    find(all.temperature, "nvmlDeviceGetTemperature", false);
    find(all.rates, "nvmlDeviceGetUtilizationRates", false);
    find(all.reasons, "nvmlDeviceGetCurrentClocksEventReasons", false);
    if (all.reasons == nullptr)
      find(all.reasons, "nvmlDeviceGetCurrentClocksThrottleReasons", false);
    all.check(all.init(), "start");
    return all;
  }
};

namespace {

nvml::device device_of(const nvml& in, int gpu) {
  std::array<char, 32> bus{};
  check(cudaDeviceGetPCIBusId(bus.data(), static_cast<int>(bus.size()), gpu), "bus of the GPU");
  nvml::device found = nullptr;
  in.check(in.by_bus(bus.data(), &found), bus.data());
  return found;
}

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

} // namespace

struct power_sampler::state {
  const nvml& in = nvml::loaded();
  nvml::device device = nullptr;
  duration every{};
  std::thread thread;
  std::atomic<bool> leave{false};
  power_readings sums; ///< of the thread until it has ended
  nvml::result failure = 0;
  double began = 0;
  unsigned long long energy_began = 0;
  bool has_energy = false;

  /// A reading, or 0 where NVML does not tell.
  template <class Ask>
  [[nodiscard]] static double told(Ask ask) {
    unsigned value = 0;
    return ask(&value) == 0 ? static_cast<double>(value) : 0;
  }
  [[nodiscard]] bool read_energy(unsigned long long& mj) const {
    return in.energy != nullptr && in.energy(device, &mj) == 0;
  }

  void sample() {
    unsigned mhz = 0;
    failure = in.clock(device, nvml::sm_clock, &mhz);
    if (failure != 0) return;
    power_readings& s = sums;
    s.least_sm_mhz = s.count == 0 ? mhz : std::min(s.least_sm_mhz, static_cast<double>(mhz));
    s.sm_mhz += mhz;
    s.memory_mhz += told([&](unsigned* v) { return in.clock(device, nvml::memory_clock, v); });
    const double watts = 1e-3 * told([&](unsigned* v) { return in.power(device, v); });
    s.watts += watts;
    s.most_watts = std::max(s.most_watts, watts);
    if (nvml::utilisation u{}; in.rates != nullptr && in.rates(device, &u) == 0) {
      s.busy_percent += u.gpu;
      s.memory_percent += u.memory;
    }
    if (unsigned long long bits = 0; in.reasons != nullptr && in.reasons(device, &bits) == 0)
      s.throttled |= bits;
    ++s.count;
  }

  void run() {
    while (!leave.load(std::memory_order_relaxed) && failure == 0) { // seen a sample later
      sample();
      std::this_thread::sleep_for(every);
    }
  }

  void end() {
    leave.store(true, std::memory_order_relaxed); // the join orders all else
    if (thread.joinable()) thread.join();
  }
};

power_sampler::power_sampler(int gpu, duration every) : state_(std::make_unique<state>()) {
  state_->device = device_of(state_->in, gpu);
  state_->every = every;
}
power_sampler::~power_sampler() { state_->end(); }

void power_sampler::start() {
  state& s = *state_;
  s.end();
  s.leave.store(false, std::memory_order_relaxed); // before the thread starts
  s.sums = {};
  s.failure = 0;
  s.has_energy = s.read_energy(s.energy_began);
  s.began = seconds_now();
  s.thread = std::thread([&s] { s.run(); });
}

power_readings power_sampler::stop() {
  state& s = *state_;
  s.end();
  s.in.check(s.failure, "clocks of the GPU");
  power_readings r = std::exchange(s.sums, {});
  const auto n = static_cast<double>(std::max<std::size_t>(1, r.count));
  for (double* const mean :
       {&r.sm_mhz, &r.memory_mhz, &r.watts, &r.busy_percent, &r.memory_percent})
    *mean /= n;
  const double seconds = seconds_now() - s.began;
  if (unsigned long long mj = 0; s.has_energy && s.read_energy(mj) && mj > s.energy_began)
    r.watts = 1e-3 * static_cast<double>(mj - s.energy_began) / seconds;
  if (s.in.limit != nullptr)
    r.limit_watts = 1e-3 * state::told([&](unsigned* v) { return s.in.limit(s.device, v); });
  if (s.in.temperature != nullptr)
    r.celsius =
        state::told([&](unsigned* v) { return s.in.temperature(s.device, nvml::gpu_sensor, v); });
  r.reasons = throttle_reasons(r.throttled);
  return r;
}

std::vector<std::string> throttle_reasons(std::uint64_t bits) {
  constexpr std::array names{
      "idle",          "clocks set by an application", "power limit", "slowdown by hardware",
      "sync boost",    "temperature (software)",       "temperature", "power brake",
      "display clocks"};
  std::vector<std::string> all;
  for (std::size_t i = 0; i < 64; ++i)
    if ((bits >> i & 1) != 0)
      all.push_back(i < names.size() ? names[i] : "bit " + std::to_string(i));
  return all;
}

} // namespace gsched::cuda
