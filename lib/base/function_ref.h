// SPDX-License-Identifier: Apache-2.0
//
// FunctionRef: reference to a callable for the length of one call; never owns, never allocates.

#pragma once

#include <type_traits>

namespace colibri {

template <typename Signature>
class FunctionRef;
template <typename Result, typename... Args>
class FunctionRef<Result(Args...)> {
 public:
  // Implicit by design, for lambdas at call sites; the constraint keeps copies out.
  // NOLINTBEGIN(bugprone-forwarding-reference-overload)
  template <typename F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, FunctionRef>) FunctionRef(F &&f)
  noexcept
      : object_(const_cast<void *>(static_cast<const void *>(&f))),
        call_([](void *object, Args... args) -> Result {
          return (*static_cast<std::remove_reference_t<F> *>(object))(args...);
        }) {}
  // NOLINTEND(bugprone-forwarding-reference-overload)
  Result operator()(Args... args) const { return call_(object_, args...); }

 private:
  void *object_;
  Result (*call_)(void *, Args...);
};

}  // namespace colibri
