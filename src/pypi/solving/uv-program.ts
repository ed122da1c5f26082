import { accessSync, constants } from 'node:fs';
import { delimiter, isAbsolute, join } from 'node:path';
import { Fault } from '../../foundation/fault.ts';

/** uv, the program that chooses Python packages. */
export interface UvProgram {
  /** Returns whether it is there now: it may be installed while the server runs. */
  isThere(): boolean;
  /** Returns its path. Throws a `Fault` that says what to install. */
  path(): string;
}

export interface UvProgramOptions {
  /** The setting: a path, or `off`; undefined to look for it. */
  readonly configured: string | undefined;
  /** Folders in which it is looked up, before those of the PATH. */
  readonly folders: readonly string[];
  /** Default: that of this process. */
  readonly path?: string | undefined;
}

export function createUvProgram({ configured, folders, path }: UvProgramOptions): UvProgram {
  const find = (): string | undefined => {
    if (configured === 'off') return undefined;
    if (configured !== undefined) return isExecutable(configured) ? configured : undefined;
    return [...folders, ...(path ?? process.env.PATH ?? '').split(delimiter)]
      .filter(isAbsolute)
      .map(folder => join(folder, 'uv'))
      .find(isExecutable);
  };
  let found: string | undefined;
  const current = () => {
    if (found === undefined || !isExecutable(found)) found = find();
    return found;
  };
  return {
    isThere: () => current() !== undefined,
    path: () => current() ?? refuse(),
  };
}

function refuse(): never {
  throw new Fault(
    'unavailable',
    'Python packages are solved by uv, which this server does not have: install the PyPI package uv there',
    { phase: 'build' },
  );
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
