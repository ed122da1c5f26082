import { projectName } from '../wheel-file.ts';
import { refuseLock } from './toml-table.ts';

/** The optional parts of a project that are installed, by their names as indexes compare them. */
export interface ProjectParts {
  readonly extras: readonly string[];
  readonly groups: readonly string[];
}

/**
 * Returns what is left out of the parts that a file has, as a person calls it. Throws a `Fault` (400) for a part that was asked for
 * and that the file does not have.
 */
export function leftOutOf(
  name: string,
  has: ProjectParts,
  wanted: ProjectParts,
): readonly string[] {
  const kinds = [
    ['extra', has.extras, wanted.extras],
    ['group', has.groups, wanted.groups],
  ] as const;
  return kinds.flatMap(([kind, known, asked]) => {
    const names = known.map(projectName);
    const absent = asked.map(projectName).find(one => !names.includes(one));
    if (absent !== undefined) {
      const list = known.slice(0, 20).join(', ') || 'none';
      refuseLock(name, `it has no ${kind} '${absent}': it has ${list}`);
    }
    const isAsked = new Set(asked.map(projectName));
    return known
      .filter(one => !isAsked.has(projectName(one)))
      .map(one => `the ${kind} '${one.slice(0, 100)}'`);
  });
}

/** Returns the value of a table for a name in any spelling. */
export function partIn(table: Readonly<Record<string, unknown>>, wanted: string): unknown {
  const key = Object.keys(table).find(one => projectName(one) === projectName(wanted));
  return key === undefined ? undefined : table[key];
}
