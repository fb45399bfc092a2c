"""To be imported before PyTorch: ends a test program where there is none, or none with gloo, as skipped."""
import sys

try:
    import torch.distributed as dist
except ImportError:
    print("skipped: there is no PyTorch here")
    sys.exit(77)
if not dist.is_available() or not dist.is_gloo_available():
    print("skipped: this PyTorch has no gloo")
    sys.exit(77)
