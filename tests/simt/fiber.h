// Stacks that a thread of execution moves between. The sanitizers are told, so that they see one call stack per fiber.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace simt {

struct Fiber {
  void* context = nullptr;
  void* stack = nullptr;  // the lowest byte; null for the stack that the OS thread came with
  size_t stackBytes = 0;
  void* fakeStack = nullptr;
  void* race = nullptr;  // the race checker's view of it
  unsigned index = 0;
};

// The fibers of one OS thread: made on demand, and left to the next thread when it ends.
class Fibers {
 public:
  using Body = void (*)(void* argument);

  Fibers();
  ~Fibers();
  Fibers(const Fibers&) = delete;
  Fibers& operator=(const Fibers&) = delete;

  unsigned size() const { return static_cast<unsigned>(fibers_.size()); }
  Fiber& at(unsigned index) { return *fibers_[index]; }
  Fiber& base() { return base_; }
  void grow(unsigned size, Body body, void* argument);
  // Makes it begin anew. What was on its stack is forgotten, not unwound.
  void restart(Fiber& fiber);

  // In the name of every fiber, from the base: what they did so far happens before whoever acquires the tag.
  void releaseAll(void* tag);

  // Leaves the running fiber for another one. `forGood`: nobody will come back to this call.
  void jump(Fiber& from, Fiber& to, bool forGood = false);

 private:
  struct Entry;
  void arrived(void* cameFrom);

  Fiber base_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  Fiber* leaving_ = nullptr;
  Fiber* running_ = nullptr;
  Body body_ = nullptr;
  void* argument_ = nullptr;
};

}  // namespace simt
