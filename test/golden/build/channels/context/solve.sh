install() {
  micromamba install --yes --name base "$@"
}

status=0
install "$@" || status=$?
if [ "$status" = 0 ]; then exit; fi
install "$@" --dry-run 2>&1 | grep -q __cuda || exit "$status"
echo 'A package needs CUDA: trying again with CONDA_OVERRIDE_CUDA=99'
export CONDA_OVERRIDE_CUDA=99
install "$@"
