import { doubleQuoted, singleQuoted } from './shell-quote.ts';

/**
 * The script that starts an image: its entrypoint with its command, or with the arguments that the user gives
 * in the command's place. Arguments are evaluated as within double quotes unless the user says otherwise, as
 * by what `apptainer build` writes. Apptainer interprets a script that has just this line with `eval` by
 * itself, so that the image needs no shell.
 */
export function ociRunscript(entrypoint: readonly string[], cmd: readonly string[]): string {
  const evaluated = (words: readonly string[]) =>
    singleQuoted(words.map(word => ` ${doubleQuoted(word)}`).join(''));
  const verbatim = (words: readonly string[]) =>
    words.map(word => ` ${singleQuoted(word)}`).join('');
  return `#!/bin/sh
# Runs the entrypoint of the image, with its command unless there are arguments.
${entrypoint.length + cmd.length === 0 ? needsArguments : ''}
if [ -n "\${SINGULARITY_NO_EVAL:-}" ]; then
    # Arguments are taken as they are.
    [ $# -gt 0 ] || set --${verbatim(cmd)}
    set --${verbatim(entrypoint)} "$@"
    exec "$@"
fi

# Arguments are evaluated as in double quotes.
SINGULARITY_OCI_RUN=${evaluated(cmd)}
if [ $# -gt 0 ]; then
    SINGULARITY_OCI_RUN=
    for argument in "$@"; do
        SINGULARITY_OCI_RUN="\${SINGULARITY_OCI_RUN} \\"\${argument}\\""
    done
fi
SINGULARITY_OCI_RUN=--${evaluated(entrypoint)}"\${SINGULARITY_OCI_RUN}"
eval "set \${SINGULARITY_OCI_RUN}"
exec "$@"
`;
}

const needsArguments = `
if [ $# -eq 0 ]; then
    echo "This image names no program to run: name one" >&2
    exit 1
fi
`;
