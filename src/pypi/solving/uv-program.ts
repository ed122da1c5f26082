import { delimiter } from 'node:path';
import { Fault } from '../../foundation/fault.ts';
import { isExecutable, programIn } from '../../foundation/limited-program.ts';

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
    return programIn([...folders, ...(path ?? process.env.PATH ?? '').split(delimiter)], 'uv');
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
