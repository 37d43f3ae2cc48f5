// SPDX-License-Identifier: Apache-2.0
#include "dispatch/shared/native_dispatchers.hpp"
#include "dispatch/shared/virtual_dispatcher.hpp"

namespace gsched::test {

#ifndef GSCHED_SANITIZED
template std::unique_ptr<any_dispatcher> make_any_dispatcher(sim::device&, fifo&,
                                                             aggregate_accountant&, any_listener&,
                                                             const dispatch_options&);
template std::unique_ptr<any_dispatcher> make_any_dispatcher(sim::device&, round_robin&,
                                                             aggregate_accountant&, any_listener&,
                                                             const dispatch_options&);
template std::unique_ptr<any_dispatcher> make_any_dispatcher(sim::device&, gamma_boost&,
                                                             aggregate_accountant&, any_listener&,
                                                             const dispatch_options&);
template std::unique_ptr<any_dispatcher> make_any_dispatcher(sim::device&, edf&,
                                                             aggregate_accountant&, any_listener&,
                                                             const dispatch_options&);
template std::unique_ptr<any_dispatcher> make_any_dispatcher(sim::device&, deficit&,
                                                             aggregate_accountant&, any_listener&,
                                                             const dispatch_options&);
#endif

} // namespace gsched::test
