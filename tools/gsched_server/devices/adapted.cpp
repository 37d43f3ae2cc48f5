// SPDX-License-Identifier: Apache-2.0
#include "gsched_server/devices/adapted.hpp"

#include "gsched_server/requests/request_tensors.hpp"

#include <gsched/core/error.hpp>
#include <gsched/core/time.hpp>
#include <gsched/job/context.hpp>
#include <gsched/job/task.hpp>
#include <gsched/server/adaptor.hpp>
#include <gsched/server/adaptor_library.hpp>
#include <gsched/server/request_record.hpp>

#include <system_error>
#include <utility>

namespace gsched_server {

namespace {

/// Requests of the service have request_tensors, those of the channel a payload.
class adapted final : public gsched::adapted_model {
public:
  adapted(const model_plan& m, gsched::adaptor_context&& context, queued_time& queued)
      : adapted_model(m.name, m.adaptor.library->make(), std::move(context)), queued_(queued) {}

  gsched::task run(gsched::job_context& job, gsched::request_record& r) override {
    const queued_time::share held(queued_,
                                  r.user == nullptr ? facts.expected : gsched::duration::zero());
    co_await adapted_model::run(job, r);
  }

protected:
  gsched::adaptor_request tensors_of(gsched::request_record& r) const override {
    if (r.user == nullptr) return adapted_model::tensors_of(r);
    const request_tensors& t = *static_cast<const request_tensors*>(r.user);
    return {signature(), t.inputs(), t.outputs()};
  }

private:
  queued_time& queued_;
};

} // namespace

std::unique_ptr<gsched::served_model> make_adapted(const model_plan& m, queued_time& queued,
                                                   const std::string& device,
                                                   std::optional<int> gpu) {
  gsched::adaptor_context context;
  context.device = device;
  context.gpu = gpu;
  context.instances = m.instances;
  context.parameters = m.adaptor.parameters;
  try {
    return std::make_unique<adapted>(m, std::move(context), queued);
  } catch (const gsched::error& e) {
    throw gsched::error(gsched::errc::job_threw, "model " + m.name + ": adaptor " +
                                                     m.adaptor.library->file() + ": " + e.what());
  }
}

} // namespace gsched_server
