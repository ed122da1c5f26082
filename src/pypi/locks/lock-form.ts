/** The forms of Python lock files, by the usual names of their files. */
export type PythonLockForm = 'uv.lock' | 'pylock.toml' | 'poetry.lock';

/** The largest Python lock file that is read, in characters. */
export const maxPythonLock = 4 * 1024 * 1024;

/** Returns the form of a Python lock file; undefined for another text. */
export function pythonLockForm(text: string): PythonLockForm | undefined {
  if (/^lock-version = ["']\d/m.test(text) && /^\[\[packages\]\]/m.test(text)) return 'pylock.toml';
  if (!/^\[\[package\]\]/m.test(text)) return undefined;
  if (/^content-hash = /m.test(text)) return 'poetry.lock';
  return /^requires-python = /m.test(text) ? 'uv.lock' : undefined;
}
