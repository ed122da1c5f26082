import type { RowDatabase } from '../driver/row-database.ts';
import type { Listed, Page } from './page.ts';

/** A user of the built-in platform. An id is never reused. */
export interface UserRow {
  readonly id: number;
  readonly email: string;
  /** ms since the epoch */
  readonly createdAt: number;
}

export interface UserStore {
  /** Adds a user; undefined when one with this address exists. */
  insert(email: string, at: number): Promise<UserRow | undefined>;
  find(id: number): Promise<UserRow | undefined>;
  findByEmail(email: string): Promise<UserRow | undefined>;
  /** Returns users in the order of their addresses. */
  list(page: Page): Promise<Listed<UserRow>>;
  /** Removes a user with the user's tokens, memberships and credentials; true when the user existed. */
  remove(id: number): Promise<boolean>;
}

const columns = 'id, email, created_at AS createdAt';

export function createUserStore(database: RowDatabase): UserStore {
  const insert = database.sql<UserRow>(
    `INSERT INTO users (email, created_at) VALUES (?, ?) ON CONFLICT DO NOTHING RETURNING ${columns}`,
  );
  const find = database.sql<UserRow>(`SELECT ${columns} FROM users WHERE id = ?`);
  const findByEmail = database.sql<UserRow>(`SELECT ${columns} FROM users WHERE email = ?`);
  const list = database.sql<UserRow>(
    `SELECT ${columns} FROM users ORDER BY email LIMIT ? OFFSET ?`,
  );
  const count = database.sql("SELECT value FROM sums WHERE name = 'users'").pluck<number>();
  const remove = database.sql('DELETE FROM users WHERE id = ?');

  return {
    insert: (email, at) => database.write(() => insert.get(email, at)),
    find: id => database.read(find.get(id)),
    findByEmail: email => database.read(findByEmail.get(email)),
    list: async ({ limit, offset }) => ({
      entries: await database.read(list.all(limit, offset)),
      total: Number(await database.read(count.get())),
    }),
    remove: id => database.write(() => remove.hasChanged(id)),
  };
}
