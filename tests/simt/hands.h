// The OS threads that work on the blocks of one grid.
#pragma once

namespace simt {

// How many work on the blocks of a grid from now on; 1: the thread that launches, alone.
unsigned handsWanted();

// work(what, 0) in the calling thread and work(what, 1) ... work(what, hands - 1) in others, all at once. Nothing
// orders these for the race checker but that they begin after this call does and end before it does.
void together(unsigned hands, void (*work)(void* what, unsigned number), void* what);

}  // namespace simt
