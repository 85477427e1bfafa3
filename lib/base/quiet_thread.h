// SPDX-License-Identifier: Apache-2.0
//
// A thread of the library that the host's signal handlers never run on.

#pragma once

#include <functional>
#include <thread>

namespace colibri {

// Starts a thread with every signal blocked from its first instruction and, where the system can,
// the given name (at most 15 bytes). `body` must not throw. Throws Error(kMemory) if the system
// refuses.
std::thread start_quiet_thread(const char *name, std::function<void()> body);

}  // namespace colibri
