#pragma once

#include "cuda/list_space.h"
#include "cuda/selection_space.h"

namespace sparsecoll::cuda {

class DeviceWorkspace final : public Workspace {
 public:
  static uint64_t bytesFor(const WorkspaceNeed& need) { return place(need, nullptr, nullptr); }

  // memory: bytesFor(need) of them, zero.
  DeviceWorkspace(const WorkspaceNeed& need, Buffer memory) : length_(need.n), memory_(std::move(memory)) {
    place(need, memory_.as<>(), this);
  }

  uint64_t length() const { return length_; }  // of the vectors
  const SelectionSpace& selection() const { return selection_; }
  const ListSpace& lists() const { return lists_; }

 private:
  static uint64_t place(const WorkspaceNeed& need, std::byte* base, DeviceWorkspace* workspace) {
    Placement at(base);
    const SelectionSpace selection = SelectionSpace::place(need, at);
    const ListSpace lists = ListSpace::place(need, at);
    if (workspace != nullptr) {
      workspace->selection_ = selection;
      workspace->lists_ = lists;
    }
    return at.bytes();
  }

  uint64_t length_;
  Buffer memory_;
  SelectionSpace selection_;
  ListSpace lists_;
};

inline const DeviceWorkspace& workspaceOf(Stream stream) { return *static_cast<DeviceWorkspace*>(stream.workspace); }

}  // namespace sparsecoll::cuda
