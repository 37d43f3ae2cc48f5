// SPDX-License-Identifier: Apache-2.0
// Those with an accountant of blocks.
#include "dispatch/shared/virtual_dispatcher.hpp"

namespace gsched::test {

template std::unique_ptr<any_dispatcher> make_any_dispatcher(any_device<false>&, any_policy<false>&,
                                                             per_sm_accountant&, any_listener&,
                                                             const dispatch_options&);
template std::unique_ptr<any_dispatcher> make_any_dispatcher(any_device<true>&, any_policy<false>&,
                                                             per_sm_accountant&, any_listener&,
                                                             const dispatch_options&);

} // namespace gsched::test
