import { createCipheriv, createDecipheriv, createHash, randomBytes } from 'node:crypto';
import { existsSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { Fault } from '../../foundation/fault.ts';
import { readKeyFile, syncDirectoriesNow, writeOnce } from '../directory/index.ts';
import type { RowDatabase, Statement } from './row-database.ts';

/** Encrypts secrets in the database: the rows are useless without the key, which is stored elsewhere. */
export interface SecretBox {
  /**
   * Returns the text, encrypted with the newest key and bound to its place: a secret that was sealed for one owner
   * cannot be opened for another.
   * @param place names the row and column, such as `credentials 12`
   */
  seal(text: string, place: string): string;
  /**
   * Returns the decrypted text. Throws a {@link Fault} (503) when it was changed, or was sealed with another key or
   * for another place.
   */
  open(sealed: string, place: string): string;
  /** Prefix of every text that {@link seal} returns: it names the key. */
  readonly prefix: string;
}

// AES-256-GCM with a random nonce. Source: NIST SP 800-38D; 2^32 seals with one key are safe.
const algorithm = 'aes-256-gcm';
const nonceBytes = 12;
const tagBytes = 16;
// `s2.<key id>.<text>`; in `s1.<text>`, of earlier versions, the key has no name.
const version = 's2';
const unnamed = 's1';
const keyIdBytes = 6;

interface CipherKey {
  readonly id: string;
  readonly bytes: Uint8Array;
}

/**
 * @param key secret of at least 32 bytes
 * @param previous an older key, which opens secrets that were sealed with it
 */
export function createSecretBox(key: Uint8Array, previous?: Uint8Array): SecretBox {
  const newest = cipherKeyOf(key);
  const keys = previous ? [newest, cipherKeyOf(previous)] : [newest];
  return {
    prefix: `${version}.${newest.id}.`,

    seal(text, place) {
      const nonce = randomBytes(nonceBytes);
      const cipher = createCipheriv(algorithm, newest.bytes, nonce).setAAD(Buffer.from(place));
      const body = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()]);
      const sealed = Buffer.concat([nonce, body, cipher.getAuthTag()]);
      return `${version}.${newest.id}.${sealed.toString('base64url')}`;
    },

    open(sealed, place) {
      const [form, ...rest] = sealed.split('.');
      const [id, encoded = ''] = form === version ? rest : [undefined, rest[0]];
      if (form !== version && form !== unnamed) throw unreadable();
      const bytes = Buffer.from(encoded, 'base64url');
      if (bytes.length < nonceBytes + tagBytes) throw unreadable();
      let cause: unknown;
      for (const candidate of keys) {
        if (id !== undefined && id !== candidate.id) continue;
        try {
          return decipher(bytes, candidate, place);
        } catch (error) {
          cause = error;
        }
      }
      throw unreadable(cause);
    },
  };
}

function cipherKeyOf(key: Uint8Array): CipherKey {
  const bytes = createHash('sha256').update('sluice secret box 1\0').update(key).digest();
  const id = createHash('sha256').update('sluice key id\0').update(bytes).digest();
  return { bytes, id: id.subarray(0, keyIdBytes).toString('base64url') };
}

function decipher(bytes: Buffer, key: CipherKey, place: string): string {
  const opened = createDecipheriv(algorithm, key.bytes, bytes.subarray(0, nonceBytes))
    .setAAD(Buffer.from(place))
    .setAuthTag(bytes.subarray(-tagBytes));
  const body = bytes.subarray(nonceBytes, -tagBytes);
  return Buffer.concat([opened.update(body), opened.final()]).toString('utf8');
}

function unreadable(cause?: unknown): Fault {
  return new Fault(
    'unavailable',
    'A stored secret cannot be read: its key is lost, or the secret was changed. Ask the operator to restore secrets.key, or remove these credentials and add them again',
    { phase: 'credentials', cause },
  );
}

const keyBytes = 32;

function pathsOf(data: string) {
  const current = join(data, 'secrets.key');
  return { current, previous: `${current}.previous`, next: `${current}.next` };
}

/**
 * Returns the box with the key of a data directory, and with the previous key while it exists. Creates a key where
 * there is none.
 */
export function openSecretBox(data: string): SecretBox {
  const { current, previous } = pathsOf(data);
  const key = readKeyFile(current);
  return createSecretBox(key, existsSync(previous) ? readKeyFile(previous) : undefined);
}

/** Returns true while the data directory has the previous key, too. */
export function hasPreviousKey(data: string): boolean {
  return existsSync(pathsOf(data).previous);
}

/**
 * Puts a new key in the place of `secrets.key`, which becomes `secrets.key.previous`. The existing files can open all
 * secrets at every moment, also when the process or the power fails. Returns false when an earlier call has made the
 * new key already. The server must be stopped.
 */
export function renewKey(data: string): boolean {
  const { current, previous, next } = pathsOf(data);
  const key = readKeyFile(current);
  // An earlier call may have ended between the copy and the new key.
  if (existsSync(previous) && !key.equals(readFileSync(previous))) return false;
  writeOnce(previous, key);
  rmSync(next, { force: true });
  writeOnce(next, randomBytes(keyBytes));
  renameSync(next, current);
  syncDirectoriesNow(data, undefined);
  return true;
}

/** Removes the previous key. Secrets that are sealed with it can never be opened again. */
export function removePreviousKey(data: string): void {
  rmSync(pathsOf(data).previous, { force: true });
  syncDirectoriesNow(data, undefined);
}

type Key = string | number | Uint8Array;

/** A row with a secret, by its table. */
export type SealedRow =
  | { readonly table: 'credentials'; readonly id: string; readonly owner: Owner }
  | { readonly table: 'tokens'; readonly hash: string }
  | { readonly table: 'pairings'; readonly id: string }
  | { readonly table: 'builds' };

interface Owner {
  readonly kind: 'user' | 'workspace';
  readonly id: number;
}

interface Found {
  readonly key: Key;
  readonly sealed: string;
  readonly user?: number | null;
  readonly workspace?: number | null;
}

/** A secret and its place. */
interface Sealed {
  readonly row: SealedRow;
  readonly sealed: string;
  /** The place after which the next page begins. */
  readonly place: SealedPlace;
}

/** A place in the order of all secrets. */
interface SealedPlace {
  readonly table: number;
  readonly key: Key;
}

/** A secret that replaces another one. */
export interface Resealed extends Pick<Sealed, 'place' | 'sealed'> {
  readonly resealed: string;
}

/** All secrets in the database. Commands use it while no server runs: some statements search whole tables. */
export interface SealedRowStore {
  /** Returns up to so many secrets after a place; an empty list at the end. */
  after(place: SealedPlace | undefined, limit: number): Promise<Sealed[]>;
  /** Replaces secrets in one transaction, except those that have changed since they were read. */
  replace(secrets: readonly Resealed[]): Promise<void>;
  /**
   * Returns how many live container requests hold a secret that does not begin with the prefix, and when the last of
   * them ends (ms since the epoch). Searches all live requests.
   */
  requestsOfOthers(prefix: string, now: number): Promise<RequestsOfOthers>;
}

interface RequestsOfOthers {
  readonly count: number;
  readonly lastEnd: number | null;
}

interface Table {
  readonly page: string;
  readonly update: string;
  readonly rowOf: (found: Found) => SealedRow;
}

const sealedTables: readonly Table[] = [
  {
    page: 'SELECT id AS key, sealed, "user", workspace FROM credentials WHERE id > ? ORDER BY id LIMIT ?',
    update: 'UPDATE credentials SET sealed = ? WHERE id = ? AND sealed = ?',
    rowOf: ({ key, user, workspace }) => ({
      table: 'credentials',
      id: String(key),
      owner:
        typeof user === 'number'
          ? { kind: 'user', id: user }
          : { kind: 'workspace', id: Number(workspace) },
    }),
  },
  {
    page: 'SELECT grant_hash AS key, sealed FROM platform_token_pairs WHERE grant_hash > ? ORDER BY grant_hash LIMIT ?',
    update: 'UPDATE platform_token_pairs SET sealed = ? WHERE grant_hash = ? AND sealed = ?',
    rowOf: ({ key }) => ({
      table: 'tokens',
      hash: Buffer.from(key as Uint8Array).toString('base64url'),
    }),
  },
  {
    page: 'SELECT id AS key, sealed_private_key AS sealed FROM platform_pairings WHERE id > ? ORDER BY id LIMIT ?',
    update:
      'UPDATE platform_pairings SET sealed_private_key = ? WHERE id = ? AND sealed_private_key = ?',
    rowOf: ({ key }) => ({ table: 'pairings', id: String(key) }),
  },
  {
    page: `SELECT rowid AS key, sealed_grant AS sealed FROM builds
      WHERE finished_at IS NULL AND sealed_grant IS NOT NULL AND rowid > ? ORDER BY rowid LIMIT ?`,
    update: 'UPDATE builds SET sealed_grant = ? WHERE rowid = ? AND sealed_grant = ?',
    rowOf: () => ({ table: 'builds' }),
  },
];

// Values below every key of each table.
const firstKeys: readonly Key[] = ['', Buffer.alloc(0), '', 0];

export function createSealedRowStore(database: RowDatabase): SealedRowStore {
  const pages = sealedTables.map(({ page }) => database.sql<Found>(page));
  const updates = sealedTables.map(({ update }) => database.sql(update));
  const requestsOfOthers = database.sql<RequestsOfOthers>(
    `SELECT COUNT(*) AS count, MAX(expires_at) AS lastEnd FROM requests
     WHERE expires_at > @now AND revoked_at IS NULL AND body LIKE '%"grant":"%'
       AND EXISTS (SELECT 1 FROM json_tree(body) WHERE key = 'grant' AND type = 'text'
         AND substr(value, 1, length(@prefix)) <> @prefix)`,
  );

  return {
    async after(place, limit) {
      for (let table = place?.table ?? 0; table < sealedTables.length; table += 1) {
        const key = place?.table === table ? place.key : firstKeys[table];
        const found = await database.read(
          (pages[table] as Statement<Found>).all(key as Key, limit),
        );
        if (found.length === 0) continue;
        return found.map(row => ({
          row: (sealedTables[table] as Table).rowOf(row),
          sealed: row.sealed,
          place: { table, key: row.key },
        }));
      }
      return [];
    },

    replace: secrets =>
      database.write(function* () {
        for (const { place, sealed, resealed } of secrets) {
          const update = updates[place.table] as Statement<unknown>;
          yield* update.run(resealed, place.key, sealed);
        }
      }),

    requestsOfOthers: async (prefix, now) =>
      (await database.read(requestsOfOthers.get({ prefix, now }))) ?? { count: 0, lastEnd: null },
  };
}
