// SPDX-License-Identifier: Apache-2.0
#include "dispatch/shared/native_dispatchers.hpp"
#include "dispatch/shared/virtual_dispatcher.hpp"

namespace gsched::test {

template std::unique_ptr<any_dispatcher> make_any_dispatcher(sim::device&, srpt&,
                                                             aggregate_accountant&, any_listener&,
                                                             const dispatch_options&);

#ifndef GSCHED_SANITIZED
template std::unique_ptr<any_dispatcher> make_any_dispatcher(sim::device&, sjf&,
                                                             aggregate_accountant&, any_listener&,
                                                             const dispatch_options&);
template std::unique_ptr<any_dispatcher> make_any_dispatcher(sim::device&, deficit_over<srpt>&,
                                                             aggregate_accountant&, any_listener&,
                                                             const dispatch_options&);
template std::unique_ptr<any_dispatcher> make_any_dispatcher(sim::device&,
                                                             priority<edf, deficit_over<srpt>>&,
                                                             aggregate_accountant&, any_listener&,
                                                             const dispatch_options&);
template std::unique_ptr<any_dispatcher> make_any_dispatcher(sim::device&, named_policy&,
                                                             aggregate_accountant&, any_listener&,
                                                             const dispatch_options&);
#endif

} // namespace gsched::test
