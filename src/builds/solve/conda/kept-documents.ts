import { type DocumentName, documentForms, writeDocument } from '../../../conda/index.ts';
import { Fault } from '../../../foundation/fault.ts';
import type { BuildRow, BuildStore } from '../../../storage/rows/index.ts';

type KeptBuilds = Pick<BuildStore, 'find' | 'solution'>;

/** Returns a document about the packages of an image. Throws a {@link Fault} (404) for a build that has none. */
export async function keptDocument(
  store: KeptBuilds,
  id: string,
  name: DocumentName,
): Promise<string> {
  const build = await store.find(id);
  if (!build) throw missing(`There is no build ${id}: check its id`);
  // The lock file of an image that BuildKit made also lists the packages of pip.
  if (name === 'explicit')
    return (
      build.lockFile ??
      refuse('This build has no lock file: only finished builds of Conda packages have one')
    );
  const solution = await store.solution(id);
  if (solution !== undefined) return writeDocument(solution, name);
  throw missing(
    `This build has no ${documentForms[name].title}: only images of Conda packages that were made without a builder have one`,
  );
}

/** Returns the names of the documents that {@link keptDocument} returns for a build. */
export async function keptNames(
  store: Pick<BuildStore, 'solution'>,
  { id, lockFile }: Pick<BuildRow, 'id' | 'lockFile'>,
): Promise<readonly DocumentName[]> {
  if (lockFile === null) return [];
  const hasSolution = (await store.solution(id)) !== undefined;
  return hasSolution ? (Object.keys(documentForms) as DocumentName[]) : ['explicit'];
}

/** Reads a lock file of this server by its address, without a connection; undefined for every other address. */
export type ReadOwnLock = (url: string) => Promise<string | undefined>;

/** @param ownHost the host of this server, with its port */
export function createReadOwnLock(store: KeptBuilds, ownHost: string): ReadOwnLock {
  return async url => {
    const { host, pathname, searchParams } = new URL(url);
    const [, id, route] =
      /^\/v1alpha1\/builds\/([0-9a-f_]+)\/(condalock|lock)$/.exec(pathname) ?? [];
    if (host !== ownHost || id === undefined) return undefined;
    const format = route === 'lock' ? (searchParams.get('format') ?? 'explicit') : 'explicit';
    if (format === 'explicit' || format === 'pixi' || format === 'conda-lock') {
      return keptDocument(store, id, format);
    }
    return refuse(`${format} is not a form of lock file: ask for explicit, pixi or conda-lock`);
  };
}

function missing(message: string): Fault {
  return new Fault('not-found', message, { phase: 'request' });
}

function refuse(message: string): never {
  throw missing(message);
}
