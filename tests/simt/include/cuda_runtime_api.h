// The host half alone is not worth a second way in.
#pragma once

#include <cuda_runtime.h>
