// Sparse lists in the kernels' memory.
#pragma once

#include <cstdint>

namespace sparsecoll {

// A sparse list being written.
struct List {
  enum class Values {
    kApart,   // at `values`
    kPacked,  // behind the last index, from the next multiple of 16 bytes on: the way frames hold them
  };
  uint32_t* indices = nullptr;
  void* values = nullptr;
  uint32_t* count = nullptr;
  uint64_t capacity = 0;
  Values where = Values::kApart;
};

// A sparse list being read; strictly increasing indices, checked where they are used.
struct ListView {
  const void* indices = nullptr;  // uint32_t, or uint64_t where the call says so
  const void* values = nullptr;   // nullptr: packed behind the indices
  const uint32_t* count = nullptr;
  uint32_t part =
      0;  // the count entries are this many lists of equal length, one behind the other; this is one of them
  uint32_t parts = 1;
  // Of its frame; with kFrameDense it is a run: the values of first, first + 1, ... lie where the indices would.
  const uint16_t* flags = nullptr;
  uint64_t first = 0;
  // Of frames that may be one or the other: empty unless it is this.
  enum class Form { kEither, kList, kRun } form = Form::kEither;
  uint64_t runBegin = 0;  // kRun: these values of the frame
  uint32_t runLength = 0;
};

}  // namespace sparsecoll
