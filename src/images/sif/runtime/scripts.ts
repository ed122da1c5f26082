/**
 * The files in `/.singularity.d` that are the same in every image, by path. Clients since Singularity 3.6 have
 * their own copies of the scripts in `actions`, and run the scripts in `env`. Older clients run those in `actions`.
 * Source: the layout that `apptainer build` makes.
 */
export const runtimeScripts: Readonly<Record<string, string>> = {
  'actions/exec': action('exec "$@"'),
  'actions/run': action(`if [ -x /.singularity.d/runscript ]; then
    exec /.singularity.d/runscript "$@"
fi
exec /bin/sh "$@"`),
  'actions/shell': action(`if [ -n "\${SINGULARITY_SHELL:-}" ] && [ -x "$SINGULARITY_SHELL" ]; then
    exec "$SINGULARITY_SHELL" "$@"
elif [ -x /bin/bash ]; then
    SHELL=/bin/bash
    export SHELL
    exec /bin/bash --norc "$@"
fi
SHELL=/bin/sh
export SHELL
exec /bin/sh "$@"`),
  'actions/start': action(
    `if [ -x /.singularity.d/startscript ]; then
    exec /.singularity.d/startscript "$@"
fi`,
    '# The first process of an instance waits for this.\nkill -CONT 1\n',
  ),
  'actions/test': action(`if [ -x /.singularity.d/test ]; then
    exec /.singularity.d/test "$@"
fi
echo "This image has no test"`),
  // Clients set the user's variables after this script, so it must exist.
  'env/99-base.sh': `#!/bin/sh
# Libraries that the client brings along, such as those of a graphics card.
LD_LIBRARY_PATH="\${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}/.singularity.d/libs"
PS1="\${PS1:-Apptainer> }"
export LD_LIBRARY_PATH PS1
`,
  'env/99-runtimevars.sh': `#!/bin/sh
# What the user has said about PATH.
PATH="\${SING_USER_DEFINED_PREPEND_PATH:+$SING_USER_DEFINED_PREPEND_PATH:}$PATH"
PATH="$PATH\${SING_USER_DEFINED_APPEND_PATH:+:$SING_USER_DEFINED_APPEND_PATH}"
PATH="\${SING_USER_DEFINED_PATH:-$PATH}"
export PATH
unset SING_USER_DEFINED_PREPEND_PATH SING_USER_DEFINED_APPEND_PATH SING_USER_DEFINED_PATH
`,
};

/** Directories that exist even if they are empty. */
export const runtimeDirectories = ['actions', 'env', 'libs'] as const;

/** Links in the root of the image for the oldest clients, with their targets. */
export const runtimeLinks: Readonly<Record<string, string>> = {
  '.exec': '.singularity.d/actions/exec',
  '.run': '.singularity.d/actions/run',
  '.shell': '.singularity.d/actions/shell',
  '.test': '.singularity.d/actions/test',
  environment: '.singularity.d/env/90-environment.sh',
  singularity: '.singularity.d/runscript',
};

/** Returns a script that sets the environment and then runs the given code. */
function action(does: string, first = ''): string {
  return `#!/bin/sh
${first}for script in /.singularity.d/env/*.sh; do
    if [ -f "$script" ]; then
        . "$script"
    fi
done
${does}
`;
}
