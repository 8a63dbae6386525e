// What a test on an argument means, said in C++: the oracle that filters are compared with.
#pragma once

#include <cstdint>

#include "policy/syscall_rules.h"

inline bool holds(const sbx::ArgumentTest& test, uint64_t argument) {
  using Op = sbx::ArgumentTest::Op;
  if (test.low32) argument &= 0xffffffff;
  switch (test.op) {
    case Op::equal: return argument == test.value;
    case Op::not_equal: return argument != test.value;
    case Op::less: return argument < test.value;
    case Op::less_equal: return argument <= test.value;
    case Op::greater: return argument > test.value;
    case Op::greater_equal: return argument >= test.value;
    case Op::masked_equal: return (argument & test.mask) == test.value;
    case Op::masked_not_equal: return (argument & test.mask) != test.value;
    case Op::any_bit: return (argument & test.mask) != 0;
    case Op::start: return false;  // about all three arguments at once: start_key_test.cc
  }
  return false;
}
