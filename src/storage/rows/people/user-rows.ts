import type { RowDatabase } from '../row-database.ts';

/** A part of a list. */
export interface Page {
  readonly limit: number;
  readonly offset: number;
}

/** A part of a list, and the length of the whole list. */
export interface Listed<T> {
  readonly entries: readonly T[];
  readonly total: number;
}

/** Why a row was not added: its owner does not exist, has a row of the same name, or has as many as allowed. */
export type NotAdded = 'unknown-owner' | 'taken' | 'too-many';

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

const userColumns = 'id, email, created_at AS createdAt';

export function createUserStore(database: RowDatabase): UserStore {
  const insert = database.sql<UserRow>(
    `INSERT INTO users (email, created_at) VALUES (?, ?) ON CONFLICT DO NOTHING RETURNING ${userColumns}`,
  );
  const find = database.sql<UserRow>(`SELECT ${userColumns} FROM users WHERE id = ?`);
  const findByEmail = database.sql<UserRow>(`SELECT ${userColumns} FROM users WHERE email = ?`);
  const list = database.sql<UserRow>(
    `SELECT ${userColumns} FROM users ORDER BY email LIMIT ? OFFSET ?`,
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

/** A workspace: its members share its credentials. An id is never reused. */
export interface WorkspaceRow {
  readonly id: number;
  readonly name: string;
  /** ms since the epoch */
  readonly createdAt: number;
}

export interface WorkspaceStore {
  /** Adds a workspace; undefined when one of this name exists, ignoring case. */
  insert(name: string, at: number): Promise<WorkspaceRow | undefined>;
  find(id: number): Promise<WorkspaceRow | undefined>;
  findByName(name: string): Promise<WorkspaceRow | undefined>;
  /** Returns the workspaces of a member, or all; in the order of their names. */
  list(member: number | undefined, page: Page): Promise<Listed<WorkspaceRow>>;
  /** Removes a workspace with its credentials; true when it existed. */
  remove(id: number): Promise<boolean>;
  hasMember(id: number, user: number): Promise<boolean>;
  /** Returns the members in the order of their addresses. */
  members(id: number, page: Page): Promise<Listed<UserRow>>;
  /** True when the user is a member now; false when the workspace or the user does not exist. */
  addMember(id: number, user: number): Promise<boolean>;
  /** True when the user was a member. */
  removeMember(id: number, user: number): Promise<boolean>;
}

const workspaceColumns = 'id, name, created_at AS createdAt';

export function createWorkspaceStore(database: RowDatabase): WorkspaceStore {
  const insert = database.sql<WorkspaceRow>(
    `INSERT INTO workspaces (name, created_at) VALUES (?, ?) ON CONFLICT DO NOTHING RETURNING ${workspaceColumns}`,
  );
  const find = database.sql<WorkspaceRow>(
    `SELECT ${workspaceColumns} FROM workspaces WHERE id = ?`,
  );
  const findByName = database.sql<WorkspaceRow>(
    `SELECT ${workspaceColumns} FROM workspaces WHERE name = ?`,
  );
  const page = 'ORDER BY name LIMIT @limit OFFSET @offset';
  const list = database.sql<WorkspaceRow>(
    `SELECT ${workspaceColumns} FROM workspaces
     WHERE id IN (SELECT workspace FROM workspace_members WHERE "user" = @member) ${page}`,
  );
  const count = database
    .sql('SELECT COUNT(*) FROM workspace_members WHERE "user" = ?')
    .pluck<number>();
  const listAll = database.sql<WorkspaceRow>(`SELECT ${workspaceColumns} FROM workspaces ${page}`);
  const countAll = database.sql("SELECT value FROM sums WHERE name = 'workspaces'").pluck<number>();
  const remove = database.sql('DELETE FROM workspaces WHERE id = ?');
  const hasMember = database.sql(
    'SELECT 1 FROM workspace_members WHERE workspace = ? AND "user" = ?',
  );
  const members = database.sql<UserRow>(
    `SELECT id, email, created_at AS createdAt FROM users
     WHERE id IN (SELECT "user" FROM workspace_members WHERE workspace = ?)
     ORDER BY email LIMIT ? OFFSET ?`,
  );
  const countMembers = database
    .sql('SELECT COUNT(*) FROM workspace_members WHERE workspace = ?')
    .pluck<number>();
  const addMember = database.sql(
    `INSERT INTO workspace_members (workspace, "user")
     SELECT w.id, u.id FROM workspaces w, users u WHERE w.id = ? AND u.id = ?
     ON CONFLICT DO NOTHING`,
  );
  const removeMember = database.sql(
    'DELETE FROM workspace_members WHERE workspace = ? AND "user" = ?',
  );

  return {
    insert: (name, at) => database.write(() => insert.get(name, at)),
    find: id => database.read(find.get(id)),
    findByName: name => database.read(findByName.get(name)),
    async list(member, page) {
      const isOfAll = member === undefined;
      return {
        entries: await database.read(
          isOfAll ? listAll.all({ ...page }) : list.all({ member, ...page }),
        ),
        total: Number(await database.read(isOfAll ? countAll.get() : count.get(member))),
      };
    },
    remove: id => database.write(() => remove.hasChanged(id)),
    hasMember: async (id, user) => (await database.read(hasMember.get(id, user))) !== undefined,
    members: async (id, { limit, offset }) => ({
      entries: await database.read(members.all(id, limit, offset)),
      total: Number(await database.read(countMembers.get(id))),
    }),
    addMember: (id, user) =>
      database.write(function* () {
        yield* addMember.run(id, user);
        return (yield* hasMember.get(id, user)) !== undefined;
      }),
    removeMember: (id, user) => database.write(() => removeMember.hasChanged(id, user)),
  };
}
