#include "tests/simt/fences.h"

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>

#include "tests/simt/sanitizers.h"
#include "tests/simt/spin.h"

namespace simt {

struct Fences::Past {
  alignas(8) char tag;
};

namespace {

using Past = Fences::Past;
using Pasts = Fences::Pasts;

// Objects of a kind, all given back at once. From the system, as malloc and free write to memory for the race checker.
template <class T>
class Room {
 public:
  explicit constexpr Room(size_t most) : most_(most) {}
  T& operator[](size_t i) { return all_[i]; }
  size_t count() const { return count_; }
  T* take() {
    if (count_ == 0) map();
    if (count_ == most_) fail();
    return all_ + count_++;
  }
  void clear() {
    if (count_ != 0) munmap(all_, most_ * sizeof(T));
    count_ = 0;
  }

 private:
  void map() {
    void* const mapping =
        mmap(nullptr, most_ * sizeof(T), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping == MAP_FAILED) fail();
    all_ = static_cast<T*>(mapping);
  }
  [[noreturn]] static void fail() {
    std::fputs("simt: no room for what fences order\n", stderr);
    std::abort();
  }

  size_t most_, count_ = 0;
  T* all_ = nullptr;
};

// What whoever reads an address atomically gets hold of.
struct Cell {
  const void* address;
  const Pasts* pasts;
  Cell* next;
};

constexpr size_t kChains = 1u << 16;
Spin mutex;
unsigned grids = 0;
constinit Room<Past> pastRoom(1u << 22);
constinit Room<Pasts> listRoom(1u << 26);
constinit Room<Cell> cellRoom(1u << 24);
Cell* chains[kChains];

Cell*& chainOf(const void* address) {
  constexpr uint64_t spread = 0x9e3779b97f4a7c15u;
  return chains[reinterpret_cast<uintptr_t>(address) * spread >> 48];
}

Cell* find(const void* address) {
  Cell* cell = chainOf(address);
  while (cell && cell->address != address) cell = cell->next;
  return cell;
}

bool holds(const Pasts* list, const Past* past) {
  while (list && list->past != past) list = list->rest;
  return list != nullptr;
}

void add(const Pasts*& list, Past* past) {
  if (holds(list, past)) return;
  Pasts* const front = listRoom.take();
  *front = {past, list};
  list = front;
}

void addAll(const Pasts*& list, const Pasts* from) {
  for (; from; from = from->rest) add(list, from->past);
}

}  // namespace

void Fences::lock() { mutex.lock(); }
void Fences::unlock() { mutex.unlock(); }

void Fences::beginGrid() {
  mutex.lock();
  ++grids;
  mutex.unlock();
}

void Fences::endGrid() {
  mutex.lock();
  if (--grids == 0) {
    if (cellRoom.count() != 0)
      for (Cell*& chain : chains) chain = nullptr;
    pastRoom.clear();
    listRoom.clear();
    cellRoom.clear();
  }
  mutex.unlock();
}

void Fences::beginShare() {
  for (Thread& thread : threads_) thread = {};
}

void Fences::beginBlock(unsigned threads) {
  count_ = threads;
  fencing_ = nullptr;
  fenced_ = read_ = nullptr;
  for (unsigned i = 0; i < count_; ++i) {
    Thread& thread = threads_[i];
    thread = {thread.isShared ? nullptr : thread.own, false, nullptr, nullptr, nullptr};
  }
}

void Fences::fence(unsigned number) {
  Thread& thread = threads_[number];
  mutex.lock();
  for (const Pasts* list = thread.read; list; list = list->rest) acquire(list->past);
  for (const Pasts* list = read_; list != thread.seen; list = list->rest) acquire(list->past);
  thread.read = nullptr;
  thread.seen = read_;
  if (!thread.own || thread.isShared) thread.own = pastRoom.take();
  thread.isShared = false;
  release(thread.own);
  thread.fenced = nullptr;
  add(thread.fenced, thread.own);
  if (!fencing_) fencing_ = pastRoom.take();
  release(fencing_);
  mutex.unlock();
}

// All fences so far are then one to whoever writes.
void Fences::meetBlock() {
  mutex.lock();
  for (unsigned i = 0; i < count_; ++i) {
    Thread& thread = threads_[i];
    thread.fenced = nullptr;
    addAll(read_, thread.read);
    thread.read = nullptr;
  }
  if (fencing_) {
    fenced_ = nullptr;
    add(fenced_, fencing_);
    fencing_ = nullptr;
  }
  mutex.unlock();
}

void Fences::meetWarp(unsigned first, uint32_t group) {
  mutex.lock();
  const Pasts* fenced = nullptr;
  const Pasts* read = nullptr;
  for (uint32_t rest = group; rest != 0; rest &= rest - 1) {
    Thread& thread = threads_[first + static_cast<unsigned>(__builtin_ctz(rest))];
    addAll(fenced, thread.fenced);
    addAll(read, thread.read);
    if (thread.fenced) thread.isShared = true;
  }
  for (uint32_t rest = group; rest != 0; rest &= rest - 1) {
    Thread& thread = threads_[first + static_cast<unsigned>(__builtin_ctz(rest))];
    thread.fenced = fenced;
    thread.read = read;
  }
  mutex.unlock();
}

void Fences::note(unsigned number, const void* address, Access access) {
  Thread& thread = threads_[number];
  Cell* cell = find(address);
  if (cell && access != Access::store) addAll(thread.read, cell->pasts);
  if (access == Access::load) return;
  const Pasts* const fenced = thread.fenced ? thread.fenced : fenced_;
  if (!cell) {
    if (!fenced) return;
    cell = cellRoom.take();
    *cell = {address, nullptr, chainOf(address)};
    chainOf(address) = cell;
  }
  thread.isShared = thread.isShared || thread.fenced;
  if (access == Access::store) {
    cell->pasts = fenced;
  } else {
    addAll(cell->pasts, fenced);
  }
}

}  // namespace simt
