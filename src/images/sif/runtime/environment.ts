import { isVariableName, singleQuoted } from './shell-quote.ts';

// Variables that shells hold read-only, or that tell of the container that runs: to set them ends the script.
const reserved =
  /^(?:UID|EUID|GID|PPID|BASHOPTS|BASH_VERSINFO|SHELLOPTS|(?:APPTAINER|SINGULARITY)_(?:NAME|CONTAINER|INSTANCE))$/;

/**
 * The script that gives a container the variables of its image, `NAME=value` each. Whoever runs it has cleared
 * what comes from the machine, and sets what the user wants afterwards; old clients set that before, so that
 * a variable with a value is left as it is. Of variables with one name the last counts. Those that no shell
 * can have are left out.
 */
export function environmentScript(variables: readonly string[]): string {
  const lines = wordsOf(variables).map(([name, value]) =>
    name === 'PATH'
      ? `export PATH=${value}\n`
      : `[ -n "\${${name}:-}" ] || ${name}=${value}\nexport ${name}\n`,
  );
  return `#!/bin/sh\n# The environment of the image.\n${lines.join('')}`;
}

/** Shell code that sets variables, `NAME=value` each, whatever they were before. */
export function exportLines(variables: readonly string[]): string {
  return wordsOf(variables)
    .map(([name, value]) => `export ${name}=${value}\n`)
    .join('');
}

/** Names, and values as words of a shell. */
function wordsOf(variables: readonly string[]): readonly (readonly [string, string])[] {
  return [...new Map(variables.map(variable => [nameOf(variable), variable]))]
    .filter(([name]) => isVariableName(name) && !reserved.test(name))
    .map(([name, variable]) => [name, singleQuoted(variable.slice(name.length + 1))]);
}

function nameOf(variable: string): string {
  return variable.split('=', 1)[0] ?? '';
}
