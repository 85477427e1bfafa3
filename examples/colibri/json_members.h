// SPDX-License-Identifier: Apache-2.0
//
// Looks into JSON of the library, which is trusted to be well formed.

#pragma once

#include <string_view>
#include <utility>
#include <vector>

namespace colibri::command {

// Names (as they stand, without quotes) and texts of the members of an object, in its order;
// nothing for other values.
std::vector<std::pair<std::string_view, std::string_view>> json_members(std::string_view object);

// Text of a member, empty if there is none.
std::string_view json_member(std::string_view object, std::string_view name);

}  // namespace colibri::command
