// SPDX-License-Identifier: MIT OR Apache-2.0
// The runtime for C++17: requests of CUDA programs (request.hpp), and a scheduler that makes them
// for functions (scheduler.hpp). Both are headers alone over the library of runtime.h, which needs
// no header and no library of CUDA.
#ifndef ZERNEL_RUNTIME_HPP
#define ZERNEL_RUNTIME_HPP

#include <zernel/request.hpp>
#include <zernel/scheduler.hpp>

#endif // ZERNEL_RUNTIME_HPP
