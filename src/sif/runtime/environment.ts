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
  const lines = [...new Map(variables.map(variable => [nameOf(variable), variable]))]
    .filter(([name]) => isVariableName(name) && !reserved.test(name))
    .map(([name, variable]) => exportLine(name, variable));
  return `#!/bin/sh\n# The environment of the image.\n${lines.join('')}`;
}

function exportLine(name: string, variable: string): string {
  const value = singleQuoted(variable.slice(name.length + 1));
  if (name === 'PATH') return `export PATH=${value}\n`;
  return `[ -n "\${${name}:-}" ] || ${name}=${value}\nexport ${name}\n`;
}

function nameOf(variable: string): string {
  return variable.split('=', 1)[0] ?? '';
}
