const maxShebangBytes = 127;
// Path of the interpreter, and its options.
const shebangPattern = /^#! *(\/(?:\\ |[^ \n\r\t])*)(.*)/s;
const pythonPattern = /^python(?:\d+(?:\.\d+)?)?$/;

/**
 * Returns the first line of a script with its prefix replaced. Linux runs neither a shebang longer than 127 bytes nor one
 * with a blank in the path: those find their interpreter by `/usr/bin/env`, and Python's by a shell, as rattler does.
 *
 * @param line begins with `#!`; without its line end
 */
export function replaceShebang(line: string, placeholder: string, prefix: string): string {
  if (prefix.includes(' ')) {
    if (!line.includes(placeholder)) return line;
    return throughEnv(line).replaceAll(placeholder, () => prefix);
  }
  const replaced = line.replaceAll(placeholder, () => prefix);
  return Buffer.byteLength(replaced) <= maxShebangBytes ? replaced : throughEnv(replaced);
}

function throughEnv(line: string): string {
  const match = shebangPattern.exec(line);
  if (match === null) return line;
  const [, path = '', options = ''] = match;
  const program = path.slice(path.lastIndexOf('/') + 1);
  if (pythonPattern.test(program)) return shellShebang(path, options);
  return `#!/usr/bin/env ${program}${options}`;
}

/** Returns the first two lines of a Python script whose interpreter a shell starts. */
export function shellShebang(path: string, options = ''): string {
  return `#!/bin/sh\n'''exec' "${path}"${options} "$0" "$@" #'''`;
}

/** Returns the shebang of a Python script for an interpreter. */
export function pythonShebang(path: string): string {
  const isValid = Buffer.byteLength(path) + 2 <= maxShebangBytes && !path.includes(' ');
  return isValid ? `#!${path}` : shellShebang(path);
}
