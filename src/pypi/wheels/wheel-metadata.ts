import { ArchiveProblem, showPath } from '../../conda/installing/index.ts';
import { projectVersion } from '../project-version.ts';
import { projectName } from '../wheel-file.ts';

/** What `METADATA` of a wheel says, as far as layers, lock files and bills of materials require it. */
export interface WheelMetadata {
  readonly name: string;
  readonly version: string;
  readonly summary?: string | undefined;
  /** The field `License`, where it is one short line: many wheels have the whole text there. */
  readonly license?: string | undefined;
  /** An SPDX expression. */
  readonly licenseExpression?: string | undefined;
  /** Classifiers that begin with `License ::`. */
  readonly licenseClassifiers: readonly string[];
  readonly homePage?: string | undefined;
  readonly requiresPython?: string | undefined;
  readonly requiresDist: readonly string[];
}

const longestText = 1000;
// The most that a package of PyPI has is a tenth.
const mostTexts = 2000;
const mostLines = 5000;

/** Returns the fields before the first empty line, by their names in lower case. */
function fieldsOf(text: string): Map<string, string[]> {
  const fields = new Map<string, string[]>();
  let last: string[] | undefined;
  let count = 0;
  for (let at = 0; at < text.length; ) {
    const end = text.indexOf('\n', at);
    const line = text.slice(at, end < 0 ? text.length : end).replace(/\r$/, '');
    if (line === '') break;
    at = end < 0 ? text.length : end + 1;
    count += 1;
    if (count > mostLines) break;
    if (/^[ \t]/.test(line)) {
      if (last) last[last.length - 1] += `\n${line.trim()}`;
      continue;
    }
    const colon = line.indexOf(':');
    if (colon <= 0) continue;
    const name = line.slice(0, colon).toLowerCase();
    last = fields.get(name) ?? [];
    fields.set(name, last);
    last.push(line.slice(colon + 1).trim());
  }
  return fields;
}

/** Reads `METADATA`. Throws `ArchiveProblem` if it has no name or no version. Source: PyPA specifications, Core metadata. */
export function readMetadata(text: string): WheelMetadata {
  const fields = fieldsOf(text);
  const short = (name: string): string | undefined => {
    const [value] = fields.get(name) ?? [];
    const isShort = value && value.length <= longestText && !value.includes('\n');
    return isShort && value !== 'UNKNOWN' ? value : undefined;
  };
  const texts = (name: string): string[] =>
    (fields.get(name) ?? []).filter(one => one.length <= longestText).slice(0, mostTexts);
  const [name, version] = [short('name'), short('version')];
  if (name === undefined || version === undefined) {
    throw new ArchiveProblem('has a METADATA without a name or a version');
  }
  const pages = (fields.get('project-url') ?? []).map(url => url.split(/,\s*/, 2));
  const page = pages.find(([label = '']) => /^home\s?-?page$/i.test(label))?.[1];
  return {
    name,
    version,
    summary: short('summary'),
    license: short('license'),
    licenseExpression: short('license-expression'),
    licenseClassifiers: texts('classifier').filter(one => one.startsWith('License ::')),
    homePage: short('home-page') ?? page,
    requiresPython: short('requires-python'),
    requiresDist: texts('requires-dist').map(one => one.replaceAll('\n', ' ')),
  };
}

/** Checks that a wheel contains the package that it should. Throws `ArchiveProblem` for another one. */
export function checkMetadata(
  metadata: Pick<WheelMetadata, 'name' | 'version'>,
  wanted: { readonly name: string; readonly version: string },
): void {
  if (projectName(metadata.name) !== projectName(wanted.name)) {
    throw new ArchiveProblem(
      `contains the package ${showPath(metadata.name)}, not ${showPath(wanted.name)}`,
    );
  }
  // A repaired wheel may have a local version that only its name has.
  const [own, other] = [plainVersion(metadata.version), plainVersion(wanted.version)];
  if (own === other || own === other.split('+', 1)[0]) return;
  throw new ArchiveProblem(
    `contains version ${showPath(metadata.version)}, not ${showPath(wanted.version)}`,
  );
}

/** Other texts, which no installer compares, are compared as they are. */
function plainVersion(version: string): string {
  return projectVersion(version) ?? version;
}

/** Checks that `WHEEL` is one that this code can install. Throws `ArchiveProblem` for a newer one. */
export function checkWheelVersion(text: string): void {
  const [version = ''] = fieldsOf(text).get('wheel-version') ?? [];
  if (/^[01]\.\d{1,3}$/.test(version)) return;
  throw new ArchiveProblem(`has the wheel version ${showPath(version)}, which is not supported`);
}
