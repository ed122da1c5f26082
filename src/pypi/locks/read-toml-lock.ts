import { parse } from 'smol-toml';
import type { PythonTarget } from '../solving/python-target.ts';
import {
  type ChosenPackages,
  chooseLocked,
  type WantedPython,
  wantedPython,
} from './choose-locked.ts';
import { maxPythonLock, pythonLockForm } from './lock-form.ts';
import { type PythonLock, refuseLock, type Table } from './locked-package.ts';
import { MarkerProblem } from './markers.ts';
import { readPoetryLock } from './poetry-lock.ts';
import { readPylockFile } from './pylock-file.ts';
import { readUvLock } from './uv-lock.ts';

/** A Python lock file, and the system that it is installed on. */
export interface PythonLockOrder {
  readonly text: string;
  /** What the file is called in messages. */
  readonly name: string;
  readonly system: Pick<PythonTarget, 'machine' | 'glibc'>;
  /** The version of Python, once it is known. */
  readonly version?: string | undefined;
}

/** Returns the Python that a lock file requires, or its packages where the Python is known. Throws a `Fault` (400). */
export function answerLock(order: PythonLockOrder): WantedPython | ChosenPackages {
  const { text, name, system, version } = order;
  try {
    const lock = readPythonLock(name, text);
    return version === undefined
      ? wantedPython(name, lock, system)
      : chooseLocked(name, lock, { ...system, version });
  } catch (error) {
    if (!(error instanceof MarkerProblem)) throw error;
    refuseLock(name, `a marker cannot be read: ${error.message}`);
  }
}

function readPythonLock(name: string, text: string): PythonLock {
  if (text.length > maxPythonLock) {
    refuseLock(name, `it has more than ${maxPythonLock / 1024 / 1024} million characters`);
  }
  const table = tomlOf(name, text);
  switch (pythonLockForm(text)) {
    case 'uv.lock':
      return readUvLock(name, table);
    case 'poetry.lock':
      return readPoetryLock(name, table);
    case 'pylock.toml':
      return readPylockFile(name, table);
    case undefined:
      refuseLock(name, 'it is not a uv.lock, pylock.toml or poetry.lock');
  }
}

/** Returns the content of a TOML file. Throws a `Fault` (400) with the place of the fault. */
export function tomlOf(name: string, text: string): Table {
  try {
    return parse(text) as Table;
  } catch (error) {
    const [sentence = ''] = (error as Error).message.split('\n');
    refuseLock(name, `it is not a TOML file that can be read: ${sentence.slice(0, 200)}`);
  }
}
