import { anyCuda } from './cuda.ts';

/**
 * A shell script that runs the package manager with its arguments. A package may require CUDA without showing it in its
 * name, or may already be installed. Only when the solver fails for lack of CUDA does the script set a version and try
 * again. The log of any other failure ends with the reason, and its exit code is kept.
 */
export const solveScript = `install() {
  micromamba install --yes --name base "$@"
}

status=0
install "$@" || status=$?
if [ "$status" = 0 ]; then exit; fi
install "$@" --dry-run 2>&1 | grep -q __cuda || exit "$status"
echo 'A package needs CUDA: trying again with CONDA_OVERRIDE_CUDA=${anyCuda}'
export CONDA_OVERRIDE_CUDA=${anyCuda}
install "$@"
`;
