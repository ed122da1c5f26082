import { type RowDatabase, together } from '../row-database.ts';
import type { Listed, NotAdded, Page } from './user-rows.ts';

/** The owner of credentials. */
export interface CredentialOwner {
  readonly kind: 'user' | 'workspace';
  readonly id: number;
}

/** Credentials of the built-in platform as they are stored. */
export interface CredentialRow {
  readonly id: string;
  readonly owner: CredentialOwner;
  readonly name: string;
  readonly description: string | null;
  readonly provider: string;
  /** The public part, as JSON text. */
  readonly shown: string;
  /** All of the credentials, encrypted. */
  readonly sealed: string;
  /** ms since the epoch */
  readonly createdAt: number;
  /** `yyyy-mm-dd`, UTC */
  readonly usedDay: string | null;
}

/** Credentials in a list: without the secret, of which a list does not need the many bytes. */
export type ListedCredentialRow = Omit<CredentialRow, 'sealed'>;

export interface CredentialStore {
  /**
   * Adds credentials. Returns the reason when it adds nothing: the owner does not exist, has credentials of this
   * name, or has the maximum number.
   */
  insert(row: Omit<CredentialRow, 'usedDay'>, most: number): Promise<'added' | NotAdded>;
  find(id: string): Promise<CredentialRow | undefined>;
  /** Returns the credentials of one owner, or of all; oldest first. */
  list(owner: CredentialOwner | undefined, page: Page): Promise<Listed<ListedCredentialRow>>;
  /** Notes the day of use when it has changed; a note that cannot be written is dropped. */
  touch(id: string, day: string): Promise<void>;
  /** Removes credentials; true when they existed. */
  remove(id: string): Promise<boolean>;
}

interface OwnerColumns {
  readonly user: number | null;
  readonly workspace: number | null;
}

type StoredListed = Omit<ListedCredentialRow, 'owner'> & OwnerColumns;
type Stored = Omit<CredentialRow, 'owner'> & OwnerColumns;

const listedColumns = `id, "user", workspace, name, description, provider, shown,
  created_at AS createdAt, used_day AS usedDay`;

export function createCredentialStore(database: RowDatabase): CredentialStore {
  const listOf = (which: string, count = `SELECT COUNT(*) FROM credentials ${which}`) => ({
    page: database.sql<StoredListed>(
      `SELECT ${listedColumns} FROM credentials ${which} ORDER BY rowid LIMIT @limit OFFSET @offset`,
    ),
    count: database.sql(count).pluck<number>(),
  });
  const insert = database.sql(
    `INSERT INTO credentials (id, "user", workspace, name, description, provider, shown, sealed, created_at)
     VALUES (@id, @user, @workspace, @name, @description, @provider, @shown, @sealed, @createdAt)
     ON CONFLICT DO NOTHING`,
  );
  const find = database.sql<Stored>(
    `SELECT ${listedColumns}, sealed FROM credentials WHERE id = ?`,
  );
  const lists = {
    user: listOf('WHERE "user" = @id'),
    workspace: listOf('WHERE workspace = @id'),
    all: listOf('', "SELECT value FROM sums WHERE name = 'credentials'"),
  };
  const touch = database.sql(
    'UPDATE credentials SET used_day = @day WHERE id = @id AND (used_day IS NULL OR used_day <> @day)',
  );
  const owners = {
    user: database.sql('SELECT 1 FROM users WHERE id = ?'),
    workspace: database.sql('SELECT 1 FROM workspaces WHERE id = ?'),
  };
  const remove = database.sql('DELETE FROM credentials WHERE id = ?');

  return {
    insert: ({ owner, ...row }, most) =>
      database.write(function* () {
        if ((yield* owners[owner.kind].get(owner.id)) === undefined) return 'unknown-owner';
        const count = yield* lists[owner.kind].count.get({ id: owner.id });
        if (Number(count) >= most) return 'too-many';
        const added = yield* insert.changes({ ...row, ...ownerColumns(owner) });
        return added > 0 ? 'added' : 'taken';
      }),
    async find(id) {
      const row = await database.read(find.get(id));
      return row && rowOf(row);
    },
    async list(owner, page) {
      const { page: rowsOf, count } = lists[owner?.kind ?? 'all'];
      const which = owner ? { id: owner.id } : {};
      const calls = [rowsOf.all({ ...which, ...page }), count.get(which)] as const;
      const [rows, total] = await database.read(together(calls));
      return { entries: rows.map(row => rowOf(row)), total: Number(total) };
    },
    touch: (id, day) =>
      database.commit(() => touch.run({ id, day }), { patienceMs: 0 }).catch(() => {}),
    remove: id => database.write(() => remove.hasChanged(id)),
  };
}

function ownerColumns(owner: CredentialOwner): OwnerColumns {
  return {
    user: owner.kind === 'user' ? owner.id : null,
    workspace: owner.kind === 'workspace' ? owner.id : null,
  };
}

function rowOf<Row extends OwnerColumns>({ user, workspace, ...row }: Row) {
  const owner: CredentialOwner =
    user === null ? { kind: 'workspace', id: Number(workspace) } : { kind: 'user', id: user };
  return { ...row, owner };
}
