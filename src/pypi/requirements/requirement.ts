import { type GitRequirement, readGitAddress } from '../repositories/git-address.ts';
import {
  type AddressedWheel,
  projectName,
  type SourceFile,
  type WheelFile,
} from '../wheel-file.ts';

/** A requirement that names a project of an index. */
export interface PythonRequirement {
  /** As indexes compare it. */
  readonly name: string;
  readonly extras: readonly string[];
  /** Such as `>=1.2,<2`; empty for any version. */
  readonly versions: string;
  /** A condition on the system of the image, such as `python_version < "3.12"`. */
  readonly marker?: string | undefined;
  /** SHA-256 of the files that may be installed; absent for any file. */
  readonly hashes?: readonly string[] | undefined;
  /** An option behind it that pip ignores there. */
  readonly ignored?: string | undefined;
}

/** An index that a request names, by `--index-url` or `--extra-index-url`. */
export interface NamedIndex {
  /** Base URL, without a slash at its end. */
  readonly url: string;
  /** True for one beside the index of names, which it precedes. */
  readonly isExtra: boolean;
}

/** A version of a project that is built. */
export interface LockedSource {
  readonly name: string;
  readonly version: string;
  readonly source: SourceFile;
}

interface WheelExtras {
  /** Default: none. */
  readonly extras?: readonly string[] | undefined;
}

/** What a line for pip asks for. */
export type PipLine =
  | ({ readonly kind: 'project' } & PythonRequirement)
  /** A wheel at an address, as lock files list it. */
  | ({ readonly kind: 'wheel'; readonly wheel: WheelFile } & WheelExtras)
  /** A wheel at an address without its digest. */
  | ({ readonly kind: 'address'; readonly wheel: AddressedWheel } & WheelExtras)
  /** A source distribution at an address, as lock files list it for a wheel that was built. */
  | { readonly kind: 'source'; readonly project: LockedSource }
  /** A git repository. */
  | ({ readonly kind: 'repository' } & GitRequirement)
  /** Where names are looked up. */
  | ({ readonly kind: 'index' } & NamedIndex)
  /** An option that changes nothing without a builder. */
  | { readonly kind: 'option' }
  /** Versions that are not final count as others do, of all projects. */
  | { readonly kind: 'prereleases' }
  /** A line that only pip in a builder can handle. */
  | { readonly kind: 'builder'; readonly reason: string };

const longestLine = 2000;
const repository = /^(?:git|hg|svn|bzr)\+/i;
const nameGrammar = /^[A-Za-z0-9](?:[A-Za-z0-9._-]{0,200}[A-Za-z0-9])?(?![A-Za-z0-9._-])/;
const extrasGrammar = /^\[([A-Za-z0-9._, -]*)\]/;
const oneVersion = /^(?:===|~=|==|!=|<=|>=|<|>) ?[A-Za-z0-9][A-Za-z0-9.!+*_-]*$/;
// Names, operators and quoted texts of PEP 508, without anything that a file of requirements could take for something else.
const markerGrammar = /^[A-Za-z0-9_.,<>=!~'"()+* -]{1,1000}$/;

/**
 * Reads a line for pip. Only names, extras, versions and markers are taken from it, so that a line can never be an option or a path
 * for the program that solves it. Source: PyPA specifications, Dependency specifiers.
 */
export function readPipLine(text: string): PipLine {
  const { line, hashes } = splitHashes(text.replace(/(?:^|\s)#(?!sha256=).*$/s, '').trim());
  const builder = (what: string): PipLine => ({ kind: 'builder', reason: what });
  if (line.length > longestLine) return builder('a very long line for pip');
  const index = namedIndex(line);
  if (index !== undefined) return { kind: 'index', ...index };
  if (withoutEffect.test(line)) return { kind: 'option' };
  if (line === '--pre') return { kind: 'prereleases' };
  if (line.startsWith('-')) return builder(`the pip option ${/^[-A-Za-z]{1,40}/.exec(line)?.[0]}`);
  if (!hashes.every(hash => sha256Hash.test(hash))) return builder('a hash that is not SHA-256');
  if (/\$/.test(line)) return builder('a variable in a line for pip');
  if (/[`\\{}]/.test(line))
    return builder(`the character ${/[`\\{}]/.exec(line)?.[0]} in a line for pip`);
  if (repository.test(line)) return repositoryLine(line, hashes) ?? builder('a repository for pip');
  if (/^[a-z][a-z0-9+.-]{0,20}:/i.test(line)) return builder('a path or address for pip');
  const [name] = nameGrammar.exec(line) ?? [];
  if (name === undefined) return builder('a path or address for pip');
  const rest = line.slice(name.length).trimStart();
  const [bracketed = '', listed = ''] = extrasGrammar.exec(rest) ?? [];
  const extras = listed
    .split(',')
    .map(extra => extra.trim())
    .filter(extra => extra !== '');
  const after = rest.slice(bracketed.length).trim();
  if (after.startsWith('@')) {
    const address = after.slice(1).trim();
    const given = { name: projectName(name), extras: plainExtras(extras) };
    return repositoryLine(address, hashes, given) ?? addressLine(given, address, hashes);
  }
  const semicolon = after.indexOf(';');
  const [before, marker] =
    semicolon < 0 ? [after, ''] : [after.slice(0, semicolon), after.slice(semicolon + 1).trim()];
  const versions = versionsIn(before);
  const isPlain = extras.every(extra => /^[A-Za-z0-9][A-Za-z0-9._-]*$/.test(extra));
  const isMarker = markerGrammar.test(marker) && !marker.includes('--');
  const isWhole = versions !== undefined && (semicolon < 0 || isMarker);
  if (!isPlain || !isWhole) {
    const ignoring = hashes.length === 0 ? withoutIndex(line) : undefined;
    if (ignoring !== undefined) return ignoring;
    const [, option] = optionBehind.exec(line) ?? [];
    if (option !== undefined) return builder(`the option ${option} behind the requirement ${name}`);
    return builder(`the requirement of pip for ${name}`);
  }
  return {
    kind: 'project',
    name: projectName(name),
    extras: plainExtras(extras),
    versions,
    ...(marker === '' ? {} : { marker }),
    ...(hashes.length === 0 ? {} : { hashes: hashes.map(hash => hash.slice('sha256:'.length)) }),
  };
}

function plainExtras(extras: readonly string[]): readonly string[] {
  return [...new Set(extras.map(projectName))].sort();
}

/** Returns the line of a git repository; undefined for another address. Its bytes have no hash that pip could compare. */
function repositoryLine(
  address: string,
  hashes: readonly string[],
  given?: Pick<GitRequirement, 'extras'> & { readonly name: string },
): PipLine | undefined {
  const found = hashes.length > 0 ? undefined : readGitAddress(address);
  if (found === undefined) return undefined;
  const name = given?.name ?? found.name;
  if (found.name !== undefined && found.name !== name) return undefined;
  const extras = plainExtras([...(given?.extras ?? []), ...found.extras]);
  return { kind: 'repository', ...found, name, extras };
}

const optionBehind = / (--[a-z]{1,20}(?:-[a-z]{1,20}){0,4})(?:[ =]|$)/;
// Wheels come first anyway, and what a host is trusted for is a matter of the operator: its certificate is checked all the same.
const withoutEffect =
  /^(?:--prefer-binary|--trusted-host(?:=| {1,9})[A-Za-z0-9.-]{1,253}(?::\d{1,5})?)$/;
const indexOption = /^(--extra-index-url|--index-url|-i)(?:=| {1,9})(\S{1,1000})$/;

/** Returns the index of an option line; undefined for another line, and for an address that could be read in two ways. */
function namedIndex(line: string): NamedIndex | undefined {
  const [, option, address = ''] = indexOption.exec(line) ?? [];
  if (option === undefined || !/^https?:\/\//.test(address) || !URL.canParse(address))
    return undefined;
  const { href, pathname, search, hash, username, password } = new URL(address);
  const isSame = href === address || href === `${address}/`;
  const isPlain = [search, hash, username, password].every(part => part === '');
  if (!isSame || !isPlain || /[;%]|\/\//.test(pathname)) return undefined;
  return { url: href.replace(/\/$/, ''), isExtra: option === '--extra-index-url' };
}

/** Returns a requirement that an index is written behind, as pip reads it; undefined for another line. */
function withoutIndex(line: string): PipLine | undefined {
  const [requirement = '', ...options] = line.split(/ (?=--(?:extra-)?index-url[ =])/);
  const [ignored] = options.map(one => indexOption.exec(one.trim())?.[1]);
  if (ignored === undefined || options.length > 1) return undefined;
  const read = readPipLine(requirement);
  return read.kind === 'project' ? { ...read, ignored } : undefined;
}

const sha256Hash = /^sha256:[0-9a-f]{64}$/;

/** Separates a line for pip from its options `--hash=sha256:...`, which can be longer than all else. */
export function splitHashes(text: string): { line: string; hashes: readonly string[] } {
  const [line = '', ...hashes] = text.split(/ --hash[ =]/);
  return { line: line.trim(), hashes: hashes.map(hash => hash.trim()) };
}

function versionsIn(text: string): string | undefined {
  const plain = text
    .trim()
    .replace(/^\((.*)\)$/s, '$1')
    .trim();
  if (plain === '') return '';
  const parts = plain.split(',').map(part => part.trim().replace(/\s+/g, ' '));
  // A comma may stand at the end.
  if (parts.length > 1 && parts.at(-1) === '') parts.pop();
  if (!parts.every(part => oneVersion.test(part))) return undefined;
  return parts.map(part => part.replace(' ', '')).join(',');
}

const wheelName =
  /^([A-Za-z0-9._]+)-([A-Za-z0-9._+!]+)(?:-\d[A-Za-z0-9_.]*)?-[A-Za-z0-9_.]+-[A-Za-z0-9_.]+-[A-Za-z0-9_.]+\.whl$/;

const sourceName = /^([A-Za-z0-9._-]+)-([A-Za-z0-9._+!]+)\.(?:tar\.gz|zip)$/;

function addressLine(
  { name, extras }: { readonly name: string; readonly extras: readonly string[] },
  address: string,
  hashes: readonly string[],
): PipLine {
  const kind = repository.test(address) ? 'repository' : 'address';
  const reason = `the ${kind} of ${name} for pip`;
  const [url = '', sha256] = address.split('#sha256=');
  // Without a digest, anybody on the way could change what is installed.
  const scheme = sha256 === undefined ? /^https:\/\// : /^https?:\/\//;
  const isDigest = sha256 === undefined || /^[0-9a-f]{64}$/.test(sha256);
  if (!scheme.test(url) || !URL.canParse(url) || !isDigest || hashes.length > 0) {
    return { kind: 'builder', reason };
  }
  const { href, pathname, search, hash, username, password } = new URL(url);
  // It stands in lock files, where a query may be a secret, and decides which credentials are used.
  if (href !== url || search !== '' || hash !== '' || pathname.includes(';')) {
    return { kind: 'builder', reason };
  }
  const fileName = pathname
    .slice(pathname.lastIndexOf('/') + 1)
    .replaceAll('%2B', '+')
    .replaceAll('%21', '!');
  const isWheel = fileName.endsWith('.whl');
  const [, project, version] = (isWheel ? wheelName : sourceName).exec(fileName) ?? [];
  const isSame = project !== undefined && projectName(project) === projectName(name);
  if (!isSame || version === undefined || username !== '' || password !== '') {
    return { kind: 'builder', reason };
  }
  if (!isWheel) {
    if (sha256 === undefined) return { kind: 'builder', reason };
    const source = { fileName, url, sha256 };
    return { kind: 'source', project: { name: projectName(name), version, source } };
  }
  const wheel = { name: projectName(name), version, fileName, url };
  const more = extras.length === 0 ? {} : { extras };
  if (sha256 === undefined) return { kind: 'address', wheel, ...more };
  return { kind: 'wheel', wheel: { ...wheel, sha256 }, ...more };
}

/** Returns a requirement as a line of a file for the solver. */
export function requirementLine({ name, extras, versions, marker }: PythonRequirement): string {
  const inBrackets = extras.length > 0 ? `[${extras.join(',')}]` : '';
  return `${name}${inBrackets}${versions}${marker === undefined ? '' : ` ; ${marker}`}`;
}
