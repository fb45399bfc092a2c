// The part of PMIx's C ABI that this library uses, declared here so that building it needs no PMIx, and a wheel that
// was built without one has it. libpmix has kept these names, numbers and layouts under one soname from version 2 on.
// Only the end of Value has grown, with version 3: so values come one at a time, never in an array. Where there is a
// <pmix.h>, a test compares.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sparsecoll::bootstrap::pmix {

inline constexpr int kSuccess = 0;
inline constexpr uint8_t kGlobal = 3;  // a scope: all ranks see it
inline constexpr const char* kCollect = "pmix.collect";

enum Type : uint16_t { kBool = 1, kString = 3 };

struct Proc {
  char space[256];  // the job
  uint32_t rank;
};

struct Value {
  uint16_t type;
  union {
    bool flag;
    char* text;
    void* largest[3];
  } data;
};

struct Info {
  char key[512];
  uint32_t flags;
  Value value;
};

// The calls: one row names, declares and finds each.
#define SC_PMIX_CALLS(X)                                                                      \
  X(Init, int(Proc * self, Info * info, size_t count))                                        \
  X(Put, int(uint8_t scope, const char* key, Value* value))                                   \
  X(Commit, int())                                                                            \
  X(Fence, int(const Proc* ranks, size_t rankCount, const Info* info, size_t count))          \
  X(Get, int(const Proc* of, const char* key, const Info* info, size_t count, Value** value)) \
  X(Finalize, int(const Info* info, size_t count))                                            \
  X(Error_string, const char*(int code))

}  // namespace sparsecoll::bootstrap::pmix
