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

// Apptainer's own shell loses a carriage return before a line feed, and takes the backslash of an escaped
// single quote for a character: such pairs are taken apart, and quotes quoted.

/** Quotes any text as one word of a shell. Source: POSIX.1-2017, Shell 2.2.2. */
export function singleQuoted(text: string): string {
  return `'${withoutNul(text).replaceAll("'", `'"'"'`).replaceAll('\r\n', "\r''\n")}'`;
}

/** The text as one word in double quotes, of which a shell substitutes nothing. Source: the same, 2.2.3. */
export function doubleQuoted(text: string): string {
  return `"${withoutNul(text)
    .replace(/["\\$`]/g, '\\$&')
    .replaceAll('\r\n', '\r""\n')}"`;
}

/** Returns true if a shell accepts the text as the name of a variable. */
function isVariableName(text: string): boolean {
  return /^[A-Za-z_][A-Za-z0-9_]*$/.test(text);
}

/** No argument or variable of a process can have one. */
function withoutNul(text: string): string {
  return text.replaceAll('\0', '');
}
