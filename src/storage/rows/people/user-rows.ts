import type { Database } from '../database.ts';
import type { Listed, Page } from '../page.ts';

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

export function createUserStore(database: Database): UserStore {
  const insert = database.prepare(
    `INSERT INTO users (email, created_at) VALUES (?, ?) ON CONFLICT DO NOTHING RETURNING ${columns}`,
  );
  const find = database.prepare(`SELECT ${columns} FROM users WHERE id = ?`);
  const findByEmail = database.prepare(`SELECT ${columns} FROM users WHERE email = ?`);
  const list = database.prepare(`SELECT ${columns} FROM users ORDER BY email LIMIT ? OFFSET ?`);
  const count = database.prepare("SELECT value FROM sums WHERE name = 'users'").pluck();
  const remove = database.prepare('DELETE FROM users WHERE id = ?');

  return {
    insert: (email, at) => database.write(() => insert.get(email, at) as UserRow | undefined),
    find: async id => find.get(id) as UserRow | undefined,
    findByEmail: async email => findByEmail.get(email) as UserRow | undefined,
    list: async ({ limit, offset }) => ({
      entries: list.all(limit, offset) as UserRow[],
      total: Number(count.get()),
    }),
    remove: id => database.write(() => remove.run(id).changes > 0),
  };
}
