import { projectName } from '../wheel-file.ts';
import { leftOutOf, type ProjectParts, partIn } from './project-parts.ts';
import { condaVersions, versionConditions } from './python-versions.ts';
import {
  isTable,
  memberOf,
  namesIn,
  refuseLock,
  type Table,
  textIn,
  tomlOf,
} from './toml-table.ts';

/** What a project requires. */
export interface ProjectRequirements {
  /** A match specification of Conda: `python >=3.9`. */
  readonly python: string;
  /** Lines for pip, each once. */
  readonly requirements: readonly string[];
  /** Extras and groups that are not installed, as a person calls them. */
  readonly leftOut: readonly string[];
}

// A larger file could hold the event loop.
const longest = 32 * 1024;
const mostRequirements = 2000;

/** Returns whether a text is a `pyproject.toml` with a project or dependency groups. */
export function isPyproject(text: string): boolean {
  return /^\[(?:project|dependency-groups|build-system|tool\.poetry)\][ \t]{0,9}(?:#.*)?\r?$/m.test(
    text,
  );
}

/**
 * Reads what the project of a `pyproject.toml` requires. The project itself is not installed. Throws a `Fault` (400). Source: PyPA
 * specifications, Declaring project metadata, and Dependency groups.
 */
export function readPyproject(
  name: string,
  text: string,
  parts: ProjectParts,
): ProjectRequirements {
  if (text.length > longest) {
    refuseLock(
      name,
      `it has more than ${longest} characters: send a requirements.txt or a lock file`,
    );
  }
  const file = tomlOf(name, text);
  const project = memberOf(file, 'project');
  const groups = memberOf(file, 'dependency-groups');
  if (!isTable(project) && !isTable(groups)) {
    refuseLock(name, 'it has no [project] that lists what it requires: send its lock file');
  }
  const metadata = isTable(project) ? project : {};
  const dynamic = memberOf(metadata, 'dynamic');
  for (const field of ['dependencies', 'optional-dependencies']) {
    if (Array.isArray(dynamic) && dynamic.includes(field)) {
      refuseLock(
        name,
        `its '${field}' are dynamic: they are known only after the project is built. Send its lock file`,
      );
    }
  }
  const leftOut = leftOutOf(
    name,
    {
      extras: namesIn(metadata, 'optional-dependencies'),
      groups: namesIn(file, 'dependency-groups'),
    },
    parts,
  );
  const [seenExtras, seenGroups] = [new Set<string>(), new Set<string>()];
  const found = [
    ...linesOf(name, memberOf(metadata, 'dependencies') ?? [], 'dependencies'),
    ...parts.extras.flatMap(extra => extraLines(name, metadata, extra, seenExtras)),
    ...parts.groups.flatMap(group => groupLines(name, groups, group, seenGroups)),
  ];
  const requirements = [...new Set(found)];
  if (requirements.length === 0) refuseLock(name, 'it requires no package');
  if (requirements.length > mostRequirements) {
    refuseLock(name, `it has more than ${mostRequirements} requirements`);
  }
  return { python: pythonOf(name, metadata), requirements, leftOut };
}

function pythonOf(name: string, metadata: Table): string {
  const stated = textIn(metadata, 'requires-python') ?? '';
  const conditions = versionConditions(stated);
  if (conditions === undefined) {
    refuseLock(name, `requires-python '${stated.slice(0, 60)}' cannot be read`);
  }
  return `python ${condaVersions(conditions)}`.trim();
}

function linesOf(name: string, value: unknown, what: string): readonly string[] {
  if (Array.isArray(value) && value.every(one => typeof one === 'string')) return value;
  refuseLock(name, `'${what}' is not a list of texts`);
}

/** Returns the lines of an extra, and of those that it consists of, each extra once. */
function extraLines(
  name: string,
  metadata: Table,
  extra: string,
  seen: Set<string>,
): readonly string[] {
  if (seen.has(projectName(extra))) return [];
  seen.add(projectName(extra));
  const optional = memberOf(metadata, 'optional-dependencies');
  const value = isTable(optional) ? partIn(optional, extra) : undefined;
  if (value === undefined) refuseLock(name, `the extra '${extra}' cannot be found`);
  const own = projectName(textIn(metadata, 'name') ?? '');
  return linesOf(name, value, `optional-dependencies.${extra}`).flatMap(line => {
    const [, project = '', listed = ''] = ofExtras.exec(line) ?? [];
    if (own === '' || projectName(project) !== own) return [line];
    return listed.split(',').flatMap(other => extraLines(name, metadata, other.trim(), seen));
  });
}

const ofExtras = /^\s{0,9}([A-Za-z0-9._-]{1,200})\[([^\]]{1,500})\]\s{0,9}$/;

/** Returns the lines of a group, and of those that it includes, each group once. */
function groupLines(
  name: string,
  groups: unknown,
  group: string,
  seen: Set<string>,
): readonly string[] {
  if (seen.has(projectName(group))) return [];
  seen.add(projectName(group));
  const value = isTable(groups) ? partIn(groups, group) : undefined;
  if (!Array.isArray(value)) refuseLock(name, `the group '${group}' cannot be found`);
  return value.flatMap((entry: unknown) => {
    if (typeof entry === 'string') return [entry];
    const included = textIn(entry, 'include-group');
    if (included !== undefined) return groupLines(name, groups, included, seen);
    return refuseLock(name, `the group '${group}' has an entry that is not a text`);
  });
}
