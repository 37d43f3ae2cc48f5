# SPDX-License-Identifier: Apache-2.0
# Random bad inputs, the same ones each time, of which each must be refused in one line. For more:
#   GSCHED_BAD_INPUTS=5000 [GSCHED_BAD_INPUTS_SEED=N] ctest --preset release -R gsched.cli.bad_inputs
set -u
python3 "${GSCHED_SOURCE_DIR:?}/tests/cli/bad_inputs.py" --bin "${GSCHED_BIN_DIR:?}" \
  --data "$GSCHED_SOURCE_DIR/tools/data" --count "${GSCHED_BAD_INPUTS:-250}" \
  --seed "${GSCHED_BAD_INPUTS_SEED:-1}"
