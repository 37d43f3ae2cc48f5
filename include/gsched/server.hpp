// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A dispatcher with a thread of its own: submit from any thread, tickets, callbacks, coroutines.

#include <gsched/server/adaptor.hpp>
#include <gsched/server/adaptor_library.hpp>
#include <gsched/server/described_error.hpp>
#include <gsched/server/events.hpp>
#include <gsched/server/model.hpp>
#include <gsched/server/observer.hpp>
#include <gsched/server/options.hpp>
#include <gsched/server/plan_options.hpp>
#include <gsched/server/plan_server.hpp>
#include <gsched/server/planned_model.hpp>
#include <gsched/server/request.hpp>
#include <gsched/server/request_record.hpp>
#include <gsched/server/request_source.hpp>
#include <gsched/server/server.hpp>
#include <gsched/server/statistics.hpp>
#include <gsched/server/ticket.hpp>
