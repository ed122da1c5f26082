import { randomUUID } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { Fault } from '../foundation/fault.ts';
import { hasContent, syncDirectoriesNow, writeOnce } from './directory/index.ts';
import type { Rows } from './rows/index.ts';

const adoption = "run 'sluice verify --adopt-content'";

/** While this file exists, the data directory is incomplete. */
export const unfinishedRestore = 'restore.unfinished';

/** Throws a {@link Fault} while a restore has not ended. */
export function requireRestored(data: string): void {
  if (!existsSync(join(data, unfinishedRestore))) return;
  throw incomplete(
    `${data} is being restored, or its restore was interrupted: run the same 'sluice restore' again`,
  );
}

/** Where content is, as far as it must belong to the rows. */
export interface ContentPlace {
  /** For messages. */
  readonly name: string;
  /** What to do when it is missing. */
  readonly remedy: string;
  /** True when rows without an id may take over content: that of earlier versions in the data directory. */
  readonly isOwn: boolean;
  hasContent(): Promise<boolean>;
  readId(): Promise<string | undefined>;
  /** Writes the id, unless there is one. */
  writeId(id: string): Promise<void>;
  /** Puts the content away, so that no server uses it. Returns where it is kept. */
  retire(): Promise<string>;
}

/** Returns the place of content in the data directory. */
export function contentOfData(data: string): ContentPlace {
  const root = join(data, 'content');
  return {
    name: root,
    remedy: 'mount it, or restore it from a backup',
    isOwn: true,
    hasContent: () => hasContent(root),
    readId: async () => readId(root),
    async writeId(id) {
      mkdirSync(root, { recursive: true, mode: 0o700 });
      writeOnce(join(root, 'id'), id);
      syncDirectoriesNow(data, undefined);
    },
    async retire() {
      const kept = `${root}.moved-${new Date().toISOString().replaceAll(':', '-')}`;
      renameSync(root, kept);
      syncDirectoriesNow(data, undefined);
      return kept;
    },
  };
}

// The parts of a data directory must belong together before a missing part is replaced: rows without their content are
// broken, and a sweep would remove content without its rows. The database and the content carry the same id. A directory
// that is new, or whose creation was interrupted, counts as complete.

/** Throws a {@link Fault} when there is content without a database. Call it before the database is opened. */
export async function requireDatabase(data: string): Promise<void> {
  requireRestored(data);
  const path = join(data, 'sluice.db');
  const isThere = (statSync(path, { throwIfNoEntry: false })?.size ?? 0) > 0;
  if (isThere || !(await hasContent(join(data, 'content')))) return;
  throw incomplete(
    `${path} is missing, but ${data}/content holds content, which an empty server would remove: restore sluice.db from a backup, or move ${data}/content away to start empty`,
  );
}

/**
 * Throws a {@link Fault} when the content is missing or belongs to another database. Call it before the content is
 * opened.
 *
 * @param adopt accepts any content as that of the database
 */
export async function requireContent(
  place: ContentPlace,
  { identity }: Pick<Rows, 'identity'>,
  adopt = false,
): Promise<void> {
  const idOfRows = await identity.id();
  const idOfContent = await place.readId();
  if (idOfRows !== undefined && idOfRows === idOfContent) return;
  if (!adopt) await requireMatch(place, identity, idOfRows, idOfContent);
  const id = adopt || idOfRows === undefined ? randomUUID() : idOfRows;
  await place.writeId(id);
  // The content comes first: rows with an id have had content with it.
  await identity.setId((await place.readId()) ?? id, { replaces: adopt });
}

async function requireMatch(
  place: ContentPlace,
  identity: Rows['identity'],
  idOfRows: string | undefined,
  idOfContent: string | undefined,
): Promise<void> {
  const isFilled = await place.hasContent();
  if (idOfRows !== undefined && idOfContent !== undefined) {
    throw incomplete(
      `${place.name} belongs to another database than that of this server: use both as they belong together, or restore both from the same backup. To use them together all the same, ${adoption}`,
    );
  }
  if (isFilled && idOfRows === undefined && !place.isOwn) {
    throw incomplete(
      `The database is empty, but ${place.name} holds content, which an empty server would remove: name the database of this content, or an empty place for content. To use them together all the same, ${adoption}`,
    );
  }
  if (idOfContent !== undefined || (isFilled && idOfRows === undefined)) return;
  if (!isFilled && !(await identity.needsContent())) return;
  throw incomplete(
    `${place.name} is missing, or is not what the database refers to: ${place.remedy}. To continue without the missing content, ${adoption}`,
  );
}

/** Throws a {@link Fault} when the key that encrypted secrets in the database is missing. */
export async function requireSecretsKey(
  data: string,
  { identity }: Pick<Rows, 'identity'>,
): Promise<void> {
  const path = join(data, 'secrets.key');
  if (existsSync(path) || !(await identity.hasSecrets())) return;
  throw incomplete(
    `${path} is missing, but ${data}/sluice.db holds secrets that were encrypted with it: restore it from a backup. To abandon those secrets, put 32 random bytes into it: head -c 32 /dev/urandom > ${path}`,
  );
}

/**
 * Throws a {@link Fault} when the directory has the content of another database than that with this id. It may have none:
 * content may be in a bucket.
 */
export async function requireContentOf(data: string, id: string | undefined): Promise<void> {
  const root = join(data, 'content');
  const found = readId(root);
  if (found === id && id !== undefined) return;
  if (found === undefined && !(await hasContent(root))) return;
  throw incomplete(
    `${root} is not the content of these rows: name the data directory of the server that wrote them`,
  );
}

function readId(root: string): string | undefined {
  try {
    return readFileSync(join(root, 'id'), 'utf8').trim();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

function incomplete(message: string): Fault {
  return new Fault('internal', message, { phase: 'store' });
}
