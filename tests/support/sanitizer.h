// SPDX-License-Identifier: Apache-2.0
//
// Whether this test program was built with a sanitizer. Its own memory and its own operator new make
// measurements of a process's memory meaningless.

#pragma once

namespace colibri::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kIsSanitized = true;
#else
constexpr bool kIsSanitized = false;
#endif

}  // namespace colibri::test
