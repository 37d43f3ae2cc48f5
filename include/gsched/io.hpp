// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Readers and writers of JSON and CSV. They include nlohmann-json: a target that includes this
/// header must link it.

#include <gsched/io/access_json.hpp>
#include <gsched/io/app_json.hpp>
#include <gsched/io/coefficients_json.hpp>
#include <gsched/io/corun_csv.hpp>
#include <gsched/io/csv_table.hpp>
#include <gsched/io/json_fields.hpp>
#include <gsched/io/latency_csv.hpp>
#include <gsched/io/machine_json.hpp>
#include <gsched/io/measured_files.hpp>
#include <gsched/io/preset_json.hpp>
#include <gsched/io/profile_json.hpp>
#include <gsched/io/rate_curve_csv.hpp>
#include <gsched/io/read_text.hpp>
#include <gsched/io/replays_csv.hpp>
#include <gsched/io/solo_csv.hpp>
