import {
  isPyproject,
  type ProjectParts,
  pythonLockForm,
  readPyproject,
} from '../../../pypi/locks/index.ts';
import {
  isRequirementsFile,
  requirementsLines,
  splitHashes,
} from '../../../pypi/requirements/index.ts';
import { refuse, shown } from '../text/text-field.ts';
import type { CondaEnvironment } from './conda-source.ts';
import { readPipRequirement } from './package-spec.ts';

/** Returns a lock file of Python packages, as it is: a `uv.lock`, `pylock.toml` or `poetry.lock`; undefined for another text. */
function pythonLockIn(text: string, parts: ProjectParts): CondaEnvironment | undefined {
  const file = pythonLockForm(text);
  if (file === undefined) return undefined;
  return {
    form: 'environment',
    packages: [],
    pip: [],
    variables: [],
    pythonLock: { file, text, parts },
  };
}

/** No extras and no groups. */
export const noParts: ProjectParts = { extras: [], groups: [] };

/**
 * Reads a file that lists Python packages alone: a lock file, a `pyproject.toml` or a file of requirements; undefined for another
 * text. Throws a `Fault` (400).
 */
export function pythonFileIn(
  field: string,
  text: string,
  parts: ProjectParts,
): CondaEnvironment | undefined {
  const lock = pythonLockIn(text, parts);
  if (lock) return lock;
  if (isPyproject(text)) {
    const { python, requirements, leftOut } = readPyproject(field, text, parts);
    const pip = requirements.map((line, at) =>
      readPipRequirement(`${field}: requirement ${at + 1}`, line),
    );
    return { form: 'environment', packages: [python], pip, variables: [], leftOut };
  }
  return isRequirementsFile(text) ? readRequirementsFile(field, text) : undefined;
}

const mostRequirements = 2000;

/** Options of a file of requirements that read files or programs of the caller's machine, with what to do instead. */
const refusedOptions: readonly (readonly [grammar: RegExp, remedy: string])[] = [
  [/^(?:-r|--requirement\b)/, 'put the lines of that file into this one'],
  [/^(?:-c|--constraint\b)/, 'write the versions of that file into this one'],
  [/^(?:-e|--editable\b)/, 'the server does not have your directory: list what it requires'],
  [
    /^(?:-f|--find-links\b)/,
    'the server does not read directories and lists of links. Name an index with --extra-index-url, or each wheel as NAME @ https://HOST/FILE.whl#sha256=DIGEST',
  ],
];

/**
 * Reads a file of requirements for pip. Conda adds Python, and nothing else. Throws a `Fault` (400) that names the line. Source: pip,
 * Requirements File Format.
 */
function readRequirementsFile(field: string, text: string): CondaEnvironment {
  const lines = requirementsLines(text);
  if (lines.length > mostRequirements) {
    refuse(`'${field}' has more than ${mostRequirements} requirements: send a shorter list`);
  }
  const pip = lines.map(({ number, text: line }) => {
    const at = `${field}: line ${number}`;
    const [, remedy] = refusedOptions.find(([grammar]) => grammar.test(line)) ?? [];
    if (remedy !== undefined) {
      refuse(`'${at}': ${shown(/^-{1,2}[A-Za-z-]{1,40}/.exec(line)?.[0] ?? '-')}: ${remedy}`);
    }
    if (/\$\{[A-Za-z0-9_]{1,100}\}/.test(line)) {
      refuse(
        `'${at}' has an environment variable, which the server does not have: write its value`,
      );
    }
    const { line: requirement, hashes } = splitHashes(line);
    const read = readPipRequirement(at, requirement);
    return [read, ...[...new Set(hashes)].sort().map(hash => `--hash=${hash}`)].join(' ');
  });
  return { form: 'environment', packages: [], pip, variables: [] };
}
