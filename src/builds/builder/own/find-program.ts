import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';

/** Returns the path of a program in the folders of `path` (format of the variable PATH); undefined if none has it. */
export function findProgram(name: string, path: string): string | undefined {
  return path
    .split(delimiter)
    .filter(folder => folder !== '')
    .map(folder => join(folder, name))
    .find(isExecutable);
}

/** Returns whether this process may execute the file. */
export function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
