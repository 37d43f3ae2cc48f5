// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ticket.hpp"

#include <gsched/gsched_c.h>

#include <gsched/core/time.hpp>
#include <gsched/io/machine_json.hpp>
#include <gsched/occupancy/limits.hpp>
#include <gsched/partition/gpu_shape.hpp>
#include <gsched/partition/plan.hpp>
#include <gsched/server/plan_options.hpp>
#include <gsched/server/planned_model.hpp>
#include <gsched/server/request_record.hpp>
#include <gsched/serving/copy_times.hpp>
#include <gsched/serving/learning/interference_learning.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace gsched::abi {

/// gsched_plan_options, checked, as the library takes them.
struct plan_settings : plan_server_options {
  std::vector<int> gpus;
  std::string table;
  std::string planner;      ///< without +share
  bool shares_sms = false;  ///< with +share
  std::string interference; ///< empty: none
  std::string solo;
  std::string profiles;                         ///< a folder; empty: none
  std::map<std::string, std::string> libraries; ///< versions, as machine.json has them
  std::uint32_t sms = 0;                        ///< 0: all
  bool learns = false;                          ///< interference, from batches
  duration added{};
  duration watchdog{};
  std::uint32_t spare = 0;
};

/// A model of gsched_plan_open without its graphs.
struct plan_model_shape {
  std::string name;
  std::vector<std::uint32_t> batches; ///< rising
  std::vector<std::uint64_t> inputs;  ///< bytes of a request in each
  std::vector<std::uint64_t> outputs;
  duration slo{};
  double rate = 0;
};

[[nodiscard]] gsched_plan_options default_plan_options() noexcept;

/// Throws refusal or gsched::error, one line each.
[[nodiscard]] plan_settings plan_settings_of(const gsched_plan_options& o);

/// Checks all of the models that needs no CUDA.
/// Errors   refusal with GSCHED_BAD_ARGUMENT, which names the field.
[[nodiscard]] std::vector<plan_model_shape> shapes_of(const gsched_plan_model* models,
                                                      std::uint32_t count, std::size_t gpus = 1);
[[nodiscard]] gsched_plan_model plan_model_of(const gsched_plan_model* models, std::uint32_t i);
[[nodiscard]] gsched_plan_graph plan_graph_of(const gsched_plan_model& m, std::uint32_t i);

/// Refuses a file that was measured on another GPU than that of `here`, by the machine.json beside
/// it. Returns a line that says which were measured with other versions, and of which the GPU is
/// unknown, as there is no machine.json; empty if there are none.
/// Errors   refusal with GSCHED_BAD_ARGUMENT, which names the option and the file; those of
///          load_machine.
/// `here` gets the versions of libraries of `how`.
[[nodiscard]] std::string compare_machines(const plan_settings& how, machine here);

/// What a plan_server serves, how it learns, and what predictions for a plan are extrapolated in.
struct foreseen_offer : plan_offer {
  std::optional<interference_learning> learning{}; ///< unset: interference stays as expected
  std::function<std::string(const partition_plan&)> beyond_fit{}; ///< unset: nothing is predicted

  /// How a server of the offer waits, gives up and learns.
  [[nodiscard]] plan_server_options options(const plan_settings& how) const {
    plan_server_options o = how;
    o.plan.learning = learning;
    return o;
  }
};

/// What a plan_server serves. Reads the files. Each GPU of the settings has the shape `gpu`, and
/// SMs with the limits `sm`. Batches are planned with the copies of their requests' data.
/// Errors   those of reading them; unknown_name for a model that is not in them; does_not_fit for a
///          profile of another kind of GPU.
[[nodiscard]] foreseen_offer offer_of(const plan_settings& how,
                                      std::span<const plan_model_shape> models,
                                      const gpu_shape& gpu, const architecture_limits& sm,
                                      const copy_times& copies = {});

/// A model of a plan: a request's data is where its ticket says, or in its payload, as a client's
/// of the channel.
class planned final : public planned_model {
public:
  using planned_model::planned_model;

  [[nodiscard]] std::string why_not(const request_record& r) const override {
    return r.payload.data() != nullptr ? planned_model::why_not(r) : std::string();
  }
  void locate(request_record& r, std::span<const void*> in,
              std::span<void*> out) noexcept override {
    if (r.payload.data() != nullptr) return planned_model::locate(r, in, out);
    const auto& t = static_cast<const ticket&>(r);
    for (const transfer& each : t.inputs) in[each.buffer] = each.outside;
    for (const transfer& each : t.outputs) out[each.buffer] = each.outside;
  }
};

} // namespace gsched::abi
