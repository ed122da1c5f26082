import type { PythonTarget } from '../solving/python-target.ts';
import {
  type ChosenPackages,
  chooseLocked,
  type WantedPython,
  wantedPython,
} from './choose-locked.ts';
import { maxPythonLock, pythonLockForm } from './lock-form.ts';
import type { PythonLock } from './locked-package.ts';
import { MarkerProblem } from './markers.ts';
import { readPoetryLock } from './poetry-lock.ts';
import type { ProjectParts } from './project-parts.ts';
import { readPylockFile } from './pylock-file.ts';
import { refuseLock, tomlOf } from './toml-table.ts';
import { readUvLock } from './uv-lock.ts';

/** A Python lock file, and the system that it is installed on. */
export interface PythonLockOrder {
  readonly text: string;
  /** What the file is called in messages. */
  readonly name: string;
  readonly system: Pick<PythonTarget, 'machine' | 'glibc'>;
  readonly parts: ProjectParts;
  /** The version of Python, once it is known. */
  readonly version?: string | undefined;
}

/** Returns the Python that a lock file requires, or its packages where the Python is known. Throws a `Fault` (400). */
export function readTomlLock(order: PythonLockOrder): WantedPython | ChosenPackages {
  const { text, name, system, version, parts } = order;
  try {
    const lock = readPythonLock(name, text, parts);
    return version === undefined
      ? wantedPython(name, lock, system)
      : chooseLocked(name, lock, { ...system, version });
  } catch (error) {
    if (!(error instanceof MarkerProblem)) throw error;
    refuseLock(name, `a marker cannot be read: ${error.message}`);
  }
}

function readPythonLock(name: string, text: string, parts: ProjectParts): PythonLock {
  if (text.length > maxPythonLock) {
    refuseLock(name, `it has more than ${maxPythonLock / 1024 / 1024} million characters`);
  }
  const table = tomlOf(name, text);
  switch (pythonLockForm(text)) {
    case 'uv.lock':
      return readUvLock(name, table, parts);
    case 'poetry.lock':
      return readPoetryLock(name, table, parts);
    case 'pylock.toml':
      return readPylockFile(name, table, parts);
    case undefined:
      refuseLock(name, 'it is not a uv.lock, pylock.toml or poetry.lock');
  }
}
