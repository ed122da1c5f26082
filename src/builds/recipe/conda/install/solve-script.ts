import { anyCuda } from './cuda.ts';

/**
 * A shell script that installs what its arguments tell the package manager. A package may need CUDA that does
 * not say so by its name, or be there already: only when the solver fails for that, it is told a version and
 * tries again. The log of any other failure ends with the reason, and its exit code stays.
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
