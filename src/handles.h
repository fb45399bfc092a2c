// Handles are tokens, not addresses: a call looks its token up and holds the object while it runs. So a destroyed or
// foreign handle is recognised, and Abort on one thread is safe against Destroy on another.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <vector>

#include "core/status.h"

namespace sparsecoll {

template <class Object, class Handle>
class HandleTable {
 public:
  explicit HandleTable(const char* what, uintptr_t kind) : what_(what), next_(kind) {}
  // A process that was forked and ends has no part in what its parent made: that stays as it is, for ever.
  ~HandleTable() {
    for (auto& [token, object] : objects_)
      if (object != nullptr && object->forked()) new std::shared_ptr<Object>(std::move(object));
  }
  HandleTable(const HandleTable&) = delete;
  HandleTable& operator=(const HandleTable&) = delete;

  // A handle taken before its object is made, because the last thing a collective call does must not need memory.
  class Reservation {
   public:
    explicit Reservation(HandleTable& table) : table_(table) {
      const std::unique_lock lock(table_.mutex_);
      table_.objects_.emplace(table_.next_ + kStep, nullptr);
      token_ = table_.next_ += kStep;
    }
    ~Reservation() {
      const std::unique_lock lock(table_.mutex_);
      const auto mine = table_.objects_.find(token_);
      if (mine != table_.objects_.end() && mine->second == nullptr) table_.objects_.erase(mine);
    }
    Reservation(const Reservation&) = delete;
    Reservation& operator=(const Reservation&) = delete;

    Handle fill(std::shared_ptr<Object> object) {
      const std::unique_lock lock(table_.mutex_);
      table_.objects_.find(token_)->second = std::move(object);
      return reinterpret_cast<Handle>(token_);
    }

   private:
    HandleTable& table_;
    uintptr_t token_;
  };

  // Adds all of them, or, when memory runs out, none and leaves handles alone.
  void addAll(const std::vector<std::shared_ptr<Object>>& objects, Handle* handles) {
    std::unordered_map<uintptr_t, std::shared_ptr<Object>> added;
    const std::unique_lock lock(mutex_);
    uintptr_t token = next_;
    for (const auto& object : objects) added.emplace(token += kStep, object);
    objects_.reserve(objects_.size() + added.size());
    objects_.merge(added);  // moves nodes: cannot fail any more
    for (size_t i = 0; i < objects.size(); ++i) handles[i] = reinterpret_cast<Handle>(next_ += kStep);
  }

  // Not in a process that was forked: there a handle can only be removed.
  Result<std::shared_ptr<Object>> find(Handle handle) const {
    const std::shared_lock lock(mutex_);
    const auto found = objects_.find(reinterpret_cast<uintptr_t>(handle));
    if (found == objects_.end() || found->second == nullptr) return notLive(handle);
    if (found->second->forked())
      return fail(sparsecollInvalidUsage, "the {} is of the process that this one was forked from", what_);
    return found->second;
  }

  Result<std::shared_ptr<Object>> remove(Handle handle) {
    const std::unique_lock lock(mutex_);
    const auto found = objects_.find(reinterpret_cast<uintptr_t>(handle));
    if (found == objects_.end() || found->second == nullptr) return notLive(handle);
    auto object = std::move(found->second);
    objects_.erase(found);
    return object;
  }

 private:
  static constexpr uintptr_t kStep = 16;  // the low bits tell the kinds of handles apart

  Status notLive(Handle handle) const {
    if (handle == nullptr) return invalid("{} is NULL", what_);
    return fail(sparsecollInvalidUsage, "not a live {}: destroyed already, or something else", what_);
  }

  const char* what_;
  mutable std::shared_mutex mutex_;
  std::unordered_map<uintptr_t, std::shared_ptr<Object>> objects_;
  uintptr_t next_;
};

}  // namespace sparsecoll
