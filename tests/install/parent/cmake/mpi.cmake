message(FATAL_ERROR "this is the parent's mpi")
