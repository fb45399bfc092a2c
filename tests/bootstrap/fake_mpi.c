/* As much of an MPI as the library looks for: one that the program has initialised. */
int MPI_Initialized(int* flag);
int MPI_Initialized(int* flag) {
  *flag = 1;
  return 0;
}
