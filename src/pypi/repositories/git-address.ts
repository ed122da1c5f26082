import { type GitCommit, projectName } from '../wheel-file.ts';

/** A repository that a line for pip names. */
export interface GitRequirement {
  /** As indexes compare it; undefined where only the repository has it. */
  readonly name: string | undefined;
  readonly extras: readonly string[];
  /** https, without credentials, query and fragment. */
  readonly url: string;
  /** A commit, branch or tag; undefined for the branch that the repository has as its default. */
  readonly revision: string | undefined;
  /** Folder of the project; undefined for that of the repository. */
  readonly subdirectory: string | undefined;
}

// These texts become part of a line of a Dockerfile. URL allows a host to have `$` and quotes.
const hostGrammar = /^(?:[a-z0-9.-]{1,253}|\[[0-9a-f:.]{2,45}\])(?::\d{1,5})?$/;
const pathGrammar = /^(?:\/[A-Za-z0-9_~+-][A-Za-z0-9._~+-]{0,100}){1,20}$/;
const revisionGrammar =
  /^[A-Za-z0-9][A-Za-z0-9._+-]{0,100}(?:\/[A-Za-z0-9][A-Za-z0-9._+-]{0,100}){0,9}$/;
const folderGrammar =
  /^[A-Za-z0-9_-][A-Za-z0-9._+-]{0,100}(?:\/[A-Za-z0-9_-][A-Za-z0-9._+-]{0,100}){0,19}$/;
const eggGrammar =
  /^([A-Za-z0-9](?:[A-Za-z0-9._-]{0,200}[A-Za-z0-9])?)(?:\[([A-Za-z0-9._,-]{1,500})\])?$/;
const commitGrammar = /^[0-9a-f]{40}$/;

/** Returns whether a text is the id of a commit: nothing must be looked up. */
export function isCommitId(text: string): boolean {
  return commitGrammar.test(text);
}

/**
 * Reads an address of a repository: that of pip, `git+https://host/path@revision#egg=name&subdirectory=folder`, and that of lock
 * files, `git+https://host/path?rev=revision#commit`. Returns undefined for another text. Source: pip, VCS Support; uv, Lockfile.
 */
export function readGitAddress(text: string): GitRequirement | undefined {
  const [, whole = '', query = '', fragment = ''] =
    /^git\+(https:\/\/[^\s?#]+)(?:\?([^\s#]*))?(?:#(\S*))?$/.exec(text) ?? [];
  const at = whole.lastIndexOf('@');
  const stated = at > 'https://'.length && whole.indexOf('/', 'https://'.length) < at;
  const address = (stated ? whole.slice(0, at) : whole).replace(/\/$/, '');
  if (!URL.canParse(address)) return undefined;
  const { href, host, pathname, username, password } = new URL(address);
  if (username !== '' || password !== '') return undefined;
  if (!hostGrammar.test(host) || !pathGrammar.test(pathname)) return undefined;
  // `..` and the like have been resolved, and are not what the caller wrote.
  if (address.slice(address.indexOf('/', 'https://'.length)) !== pathname) return undefined;
  const isLocked = isCommitId(fragment);
  const stating = new URLSearchParams(isLocked ? query : fragment);
  if (!isLocked && query !== '') return undefined;
  const known = isLocked
    ? ['rev', 'branch', 'tag', 'subdirectory', 'lfs']
    : ['egg', 'subdirectory'];
  if ([...stating.keys()].some(key => !known.includes(key))) return undefined;
  const revision = isLocked ? fragment : stated ? whole.slice(at + 1) : undefined;
  const subdirectory = stating.get('subdirectory')?.replace(/\/$/, '') || undefined;
  const egg = stating.get('egg');
  const [, name, extras = ''] = (egg && eggGrammar.exec(egg)) || [];
  const isPlain =
    (revision === undefined || isRevision(revision)) &&
    (subdirectory === undefined || folderGrammar.test(subdirectory)) &&
    (egg === null || name !== undefined);
  if (!isPlain) return undefined;
  return {
    name: name === undefined ? undefined : projectName(name),
    extras: extras.split(',').filter(extra => extra !== ''),
    url: href,
    revision,
    subdirectory,
  };
}

/**
 * Returns the address of a submodule. Undefined for one that is not https without credentials, as for other repositories. Source: git,
 * `git submodule add`.
 *
 * @param parent the address that its repository is cloned from
 */
export function moduleAddress(written: string, parent: string): string | undefined {
  let place = parent;
  let rest = written;
  while (rest.startsWith('./') || rest.startsWith('../')) {
    if (rest.startsWith('../')) place = place.slice(0, place.lastIndexOf('/'));
    rest = rest.slice(rest.indexOf('/') + 1);
  }
  const address = rest === written ? written : `${place}/${rest}`;
  const found = readGitAddress(`git+${address}`);
  return found?.revision === undefined ? found?.url : undefined;
}

/** Returns whether a folder of a repository has a name that can be written into a recipe. */
export function isFolder(path: string): boolean {
  return folderGrammar.test(path);
}

/** Source: git, `git check-ref-format`. */
function isRevision(text: string): boolean {
  return revisionGrammar.test(text) && !text.includes('..') && !/\.(?:lock)?(?:\/|$)/.test(text);
}

/**
 * Returns the address at which the commit of a repository is looked up and built. BuildKit takes one that does not end in `.git` for
 * that of a file.
 */
export function cloneAddress({ url }: Pick<GitCommit, 'url'>): string {
  return url.endsWith('.git') ? url : `${url}.git`;
}

/** Returns the address of a commit as pip reads it. */
export function commitAddress({ url, id, subdirectory }: GitCommit): string {
  const folder = subdirectory === undefined ? '' : `#subdirectory=${subdirectory}`;
  return `git+${url}@${id}${folder}`;
}

/** Returns what `direct_url.json` says about a commit. Source: PyPA specifications, Recording the Direct URL Origin. */
export function directUrlOf({ url, id, subdirectory }: GitCommit): Record<string, unknown> {
  return {
    url,
    // Not the branch or tag: a lock file does not have it, and its image is the same.
    vcs_info: { vcs: 'git', commit_id: id },
    ...(subdirectory === undefined ? {} : { subdirectory }),
  };
}
