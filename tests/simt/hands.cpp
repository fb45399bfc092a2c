#include "tests/simt/hands.h"

#include <pthread.h>
#include <semaphore.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "tests/simt/simt.h"
#include "tests/simt/spin.h"

namespace simt {
namespace {

unsigned handsOfEnvironment() {
  const char* text = std::getenv("SPARSECOLL_SIMT_BLOCKS");
  const long hands = text ? std::strtol(text, nullptr, 10) : 1;
  return hands > 1 ? static_cast<unsigned>(hands) : 1;
}

std::atomic<unsigned>& wanted() {
  static std::atomic<unsigned> hands{handsOfEnvironment()};
  return hands;
}

// A pair of semaphores each, as a lock that hands share would order what they do. They never end, as a grid may be the
// last thing that a process does.
struct Hand {
  sem_t begins, ends;
  void (*work)(void* what, unsigned number) = nullptr;
  void* what = nullptr;
  unsigned number = 0;
  Hand* next = nullptr;
};

std::atomic<uint64_t> gridsShared{0};
Spin idleLock;
Hand* idle = nullptr;

void waitFor(sem_t& semaphore) {
  while (sem_wait(&semaphore) != 0) {  // a signal came between
  }
}

void* live(void* of) {
  Hand& hand = *static_cast<Hand*>(of);
  for (;;) {
    waitFor(hand.begins);
    hand.work(hand.what, hand.number);
    sem_post(&hand.ends);
  }
}

Hand* makeHand() {
  Hand* const hand = new Hand;
  sem_init(&hand->begins, 0, 0);
  sem_init(&hand->ends, 0, 0);
  pthread_t thread;
  if (pthread_create(&thread, nullptr, live, hand) != 0) throw std::bad_alloc();
  pthread_detach(thread);
  return hand;
}

Hand* takeHand() {
  idleLock.lock();
  Hand* const hand = idle;
  if (hand) idle = hand->next;
  idleLock.unlock();
  return hand ? hand : makeHand();
}

void giveBack(Hand* hand) {
  idleLock.lock();
  hand->next = idle;
  idle = hand;
  idleLock.unlock();
}

}  // namespace

void blocksAtOnce(unsigned blocks) { wanted() = blocks > 1 ? blocks : 1; }
uint64_t gridsAtOnce() { return gridsShared.load(std::memory_order_relaxed); }
unsigned handsWanted() { return wanted().load(std::memory_order_relaxed); }

void together(unsigned hands, void (*work)(void* what, unsigned number), void* what) {
  if (hands > 1) gridsShared.fetch_add(1, std::memory_order_relaxed);
  Hand* others = nullptr;
  for (unsigned number = 1; number < hands; ++number) {
    Hand* const hand = takeHand();
    hand->work = work;
    hand->what = what;
    hand->number = number;
    hand->next = others;
    others = hand;
  }
  for (Hand* hand = others; hand; hand = hand->next) sem_post(&hand->begins);
  work(what, 0);
  while (others) {
    Hand* const hand = others;
    others = hand->next;
    waitFor(hand->ends);
    giveBack(hand);
  }
}

}  // namespace simt
