import { readEntries } from './conda-environment.ts';
import type { CondaEnvironment } from './conda-source.ts';

const exportedLine = /^[A-Za-z0-9_][A-Za-z0-9_.-]*=[^=\s]+=[^=\s]+$/;

/** Returns whether a text is what `conda list --export` prints: a line `name=version=build` for each package. */
export function isExportedList(text: string): boolean {
  const lines = linesOf(text);
  return lines.length > 0 && lines.every(line => exportedLine.test(line));
}

/**
 * Reads a list of `conda list --export`. Packages that pip installed have a build such as `pypi_0` there. Throws a
 * `Fault`. Source: conda, `cli/main_list.py`.
 */
export function readExportedList(field: string, text: string): CondaEnvironment {
  return readEntries(
    field,
    linesOf(text).map(line => {
      const [name, version, build = ''] = line.split('=');
      return /^pypi_\d+$/.test(build) ? `pip:${name}==${version}` : line;
    }),
  );
}

function linesOf(text: string): readonly string[] {
  return text
    .split('\n')
    .map(line => line.trim())
    .filter(line => line !== '' && !line.startsWith('#'));
}
