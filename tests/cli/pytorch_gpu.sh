# SPDX-License-Identifier: Apache-2.0
# Sourced by tests of the Python module on a GPU: finds the module and the C library, or passes the
# test over where there is no PyTorch or no GPU.
library=$(find "$GSCHED_BIN_DIR/.." -name libgsched_c.so -print -quit)
export PYTHONPATH=$GSCHED_SOURCE_DIR/python:$GSCHED_SOURCE_DIR/examples/pytorch PYTHONDONTWRITEBYTECODE=1
if ! python3 -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' 2>/dev/null; then
  echo "no PyTorch or no GPU: not tested"
  exit 0
fi
[ -n "$library" ] || { echo "no libgsched_c.so below $GSCHED_BIN_DIR/.."; exit 1; }
export GSCHED_C_LIBRARY=$library
