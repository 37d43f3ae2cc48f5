// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Clients in other processes of a machine: shared memory, credentials, limits, hybrid wake-up.

#include <gsched/channel/answer.hpp>
#include <gsched/channel/client.hpp>
#include <gsched/channel/future_client.hpp>
#include <gsched/channel/host.hpp>
#include <gsched/channel/layout.hpp>
#include <gsched/channel/limits.hpp>
#include <gsched/channel/payload.hpp>
#include <gsched/channel/region.hpp>
#include <gsched/channel/shared_client.hpp>
#include <gsched/channel/slot_ring.hpp>
#include <gsched/channel/spare_descriptor.hpp>
