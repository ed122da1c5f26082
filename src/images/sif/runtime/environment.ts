import { isVariableName, singleQuoted } from './shell-quote.ts';

// Variables that are read-only in shells, or that describe the running container: setting one ends the script.
const reserved =
  /^(?:UID|EUID|GID|PPID|BASHOPTS|BASH_VERSINFO|SHELLOPTS|(?:APPTAINER|SINGULARITY)_(?:NAME|CONTAINER|INSTANCE))$/;

/**
 * Returns the script that sets the variables of an image (`NAME=value`) in a container. The client clears the
 * variables of the machine first, and sets the user's variables afterwards. Old clients set the user's variables
 * before, so the script keeps a variable that has a value. If a name occurs more than once, the last value counts.
 * Omits variables that a shell cannot have.
 */
export function environmentScript(variables: readonly string[]): string {
  const lines = wordsOf(variables).map(([name, value]) =>
    name === 'PATH'
      ? `export PATH=${value}\n`
      : `[ -n "\${${name}:-}" ] || ${name}=${value}\nexport ${name}\n`,
  );
  return `#!/bin/sh\n# The environment of the image.\n${lines.join('')}`;
}

/** Returns shell code that sets variables (`NAME=value`) and overrides earlier values. */
export function exportLines(variables: readonly string[]): string {
  return wordsOf(variables)
    .map(([name, value]) => `export ${name}=${value}\n`)
    .join('');
}

/** Returns pairs of a name and a value; the value is quoted as a shell word. */
function wordsOf(variables: readonly string[]): readonly (readonly [string, string])[] {
  return [...new Map(variables.map(variable => [nameOf(variable), variable]))]
    .filter(([name]) => isVariableName(name) && !reserved.test(name))
    .map(([name, variable]) => [name, singleQuoted(variable.slice(name.length + 1))]);
}

function nameOf(variable: string): string {
  return variable.split('=', 1)[0] ?? '';
}
