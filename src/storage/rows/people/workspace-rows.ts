import type { Database } from '../database.ts';
import type { Listed, Page } from '../page.ts';
import type { UserRow } from './user-rows.ts';

/** What users share credentials in. The id is never given to another. */
export interface WorkspaceRow {
  readonly id: number;
  readonly name: string;
  /** ms since the epoch */
  readonly createdAt: number;
}

export interface WorkspaceStore {
  /** Undefined when there is one of this name already, in whatever case. */
  insert(name: string, at: number): WorkspaceRow | undefined;
  find(id: number): WorkspaceRow | undefined;
  findByName(name: string): WorkspaceRow | undefined;
  /** Those that a user is a member of, or all; by name. */
  list(member: number | undefined, page: Page): Listed<WorkspaceRow>;
  /** True when there was such a workspace; its credentials end as well. */
  remove(id: number): boolean;
  hasMember(id: number, user: number): boolean;
  /** By address. */
  members(id: number, page: Page): Listed<UserRow>;
  /** Does nothing when the user is a member already. */
  addMember(id: number, user: number): void;
  /** True when the user was a member. */
  removeMember(id: number, user: number): boolean;
}

const columns = 'id, name, created_at AS createdAt';

export function createWorkspaceStore(database: Database): WorkspaceStore {
  const insert = database.prepare(
    `INSERT INTO workspaces (name, created_at) VALUES (?, ?) ON CONFLICT DO NOTHING RETURNING ${columns}`,
  );
  const find = database.prepare(`SELECT ${columns} FROM workspaces WHERE id = ?`);
  const findByName = database.prepare(`SELECT ${columns} FROM workspaces WHERE name = ?`);
  const page = 'ORDER BY name LIMIT @limit OFFSET @offset';
  const list = database.prepare(
    `SELECT ${columns} FROM workspaces
     WHERE id IN (SELECT workspace FROM workspace_members WHERE user = @member) ${page}`,
  );
  const count = database.prepare('SELECT COUNT(*) FROM workspace_members WHERE user = ?').pluck();
  const listAll = database.prepare(`SELECT ${columns} FROM workspaces ${page}`);
  const countAll = database.prepare("SELECT value FROM sums WHERE name = 'workspaces'").pluck();
  const remove = database.prepare('DELETE FROM workspaces WHERE id = ?');
  const hasMember = database.prepare(
    'SELECT 1 FROM workspace_members WHERE workspace = ? AND user = ?',
  );
  const members = database.prepare(
    `SELECT id, email, created_at AS createdAt FROM users
     WHERE id IN (SELECT user FROM workspace_members WHERE workspace = ?)
     ORDER BY email LIMIT ? OFFSET ?`,
  );
  const countMembers = database
    .prepare('SELECT COUNT(*) FROM workspace_members WHERE workspace = ?')
    .pluck();
  const addMember = database.prepare(
    'INSERT INTO workspace_members (workspace, user) VALUES (?, ?) ON CONFLICT DO NOTHING',
  );
  const removeMember = database.prepare(
    'DELETE FROM workspace_members WHERE workspace = ? AND user = ?',
  );

  return {
    insert: (name, at) => insert.get(name, at) as WorkspaceRow | undefined,
    find: id => find.get(id) as WorkspaceRow | undefined,
    findByName: name => findByName.get(name) as WorkspaceRow | undefined,
    list(member, page) {
      const isOfAll = member === undefined;
      return {
        entries: (isOfAll ? listAll.all(page) : list.all({ member, ...page })) as WorkspaceRow[],
        total: Number(isOfAll ? countAll.get() : count.get(member)),
      };
    },
    remove: id => remove.run(id).changes > 0,
    hasMember: (id, user) => hasMember.get(id, user) !== undefined,
    members: (id, { limit, offset }) => ({
      entries: members.all(id, limit, offset) as UserRow[],
      total: Number(countMembers.get(id)),
    }),
    addMember(id, user) {
      addMember.run(id, user);
    },
    removeMember: (id, user) => removeMember.run(id, user).changes > 0,
  };
}
