import { Fault } from '../../foundation/fault.ts';
import type {
  Listed,
  Page,
  UserRow,
  UserStore,
  WorkspaceRow,
  WorkspaceStore,
} from '../../storage/rows/index.ts';

export interface User extends UserRow {
  /** The part of the address before the @. */
  readonly userName: string;
}

/** The users of the built-in platform. */
export interface Users {
  /** Throws a {@link Fault}: 400 for an invalid e-mail address, 409 for one that already exists. */
  add(email: string): Promise<User>;
  /** Throws a {@link Fault} (404). */
  get(id: number): Promise<User>;
  /** Throws a {@link Fault} (404). */
  withEmail(email: string): Promise<User>;
  /** Lists all users, or the user with the address. */
  list(email: string | undefined, page: Page): Promise<Listed<User>>;
  /** Also removes the user's tokens, memberships and personal credentials. Throws a {@link Fault} (404). */
  remove(id: number): Promise<void>;
}

const longestEmail = 254;
const domainLabel = '[\\p{L}\\p{N}](?:[\\p{L}\\p{N}-]*[\\p{L}\\p{N}])?';
const emailPattern = new RegExp(
  `^[\\p{L}\\p{N}.!#$%&'*+/=?^_\`{|}~-]{1,64}@${domainLabel}(?:\\.${domainLabel})*$`,
  'u',
);

export function createUsers(store: UserStore, now: () => number): Users {
  const get = async (id: number): Promise<User> => {
    const row = await store.find(id);
    if (!row) throw unknownUser(`number ${id}`);
    return userOf(row);
  };
  return {
    get,

    async add(text) {
      const email = spelledEmail(text);
      if (email.length > longestEmail || !emailPattern.test(email)) {
        throw new Fault(
          'bad-request',
          "'email' must be an e-mail address, such as ada@example.org",
          { phase: 'request' },
        );
      }
      const row = await store.insert(email, now());
      if (row) return userOf(row);
      throw new Fault('in-use', `The user ${email} already exists`, { phase: 'request' });
    },

    async withEmail(email) {
      const row = await store.findByEmail(spelledEmail(email));
      if (!row) throw unknownUser(email.slice(0, longestEmail));
      return userOf(row);
    },

    async list(email, page) {
      if (email === undefined) {
        const { entries, total } = await store.list(page);
        return { entries: entries.map(userOf), total };
      }
      const row = await store.findByEmail(spelledEmail(email));
      return row ? { entries: [userOf(row)], total: 1 } : { entries: [], total: 0 };
    },

    async remove(id) {
      if (!(await store.remove(id))) throw unknownUser(`number ${id}`);
    },
  };
}

/** Returns one spelling for each address: hardly any mail host distinguishes capital letters, and people do not. */
function spelledEmail(email: string): string {
  return email.trim().toLowerCase();
}

/** Returns a user with the name that platforms show: the e-mail address up to its `@`. */
export function userOf(row: UserRow): User {
  return { ...row, userName: row.email.slice(0, row.email.indexOf('@')) };
}

function unknownUser(who: string): Fault {
  return new Fault('not-found', `The user ${who} does not exist`, { phase: 'request' });
}

export type Workspace = WorkspaceRow;

/** Groups of users that share credentials. */
export interface Workspaces {
  /** Throws a {@link Fault}: 400 for an invalid name, 409 for a name that is taken. */
  add(name: string): Promise<Workspace>;
  /** Throws a {@link Fault} (404). */
  get(id: number): Promise<Workspace>;
  hasMember(id: number, user: number): Promise<boolean>;
  /** Throws a {@link Fault} (403) when the user is not a member, whether the workspace exists or not. */
  requireMember(id: number, user: number): Promise<void>;
  /** Lists the workspaces of a member, or all; with a name, only the workspace of that name. */
  list(
    filter: { readonly member?: number | undefined; readonly name?: string | undefined },
    page: Page,
  ): Promise<Listed<Workspace>>;
  /** Also removes the credentials of the workspace. Throws a {@link Fault} (404). */
  remove(id: number): Promise<void>;
  /** Throws a {@link Fault} (404) when the workspace does not exist. */
  members(id: number, page: Page): Promise<Listed<UserRow>>;
  /** Throws a {@link Fault} (404) when the workspace or the user does not exist. */
  addMember(id: number, user: number): Promise<void>;
  /** Throws a {@link Fault} (404) when the user is not a member. */
  removeMember(id: number, user: number): Promise<void>;
}

const namePattern = /^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/;

export function createWorkspaces(store: WorkspaceStore, now: () => number): Workspaces {
  const get = async (id: number): Promise<Workspace> => {
    const workspace = await store.find(id);
    if (workspace) return workspace;
    throw unknownWorkspace(id);
  };
  return {
    get,

    async add(name) {
      if (!namePattern.test(name)) {
        throw new Fault(
          'bad-request',
          "'name' of a workspace must have 1 to 63 letters, digits and . _ -, and begin with a letter or digit",
          { phase: 'request' },
        );
      }
      const workspace = await store.insert(name, now());
      if (workspace) return workspace;
      throw new Fault('in-use', `The workspace ${name} already exists`, { phase: 'request' });
    },

    hasMember: (id, user) => store.hasMember(id, user),

    async requireMember(id, user) {
      if (await store.hasMember(id, user)) return;
      throw new Fault(
        'denied',
        `The user of this access token is not a member of workspace ${id}: ask an administrator to add them (sluice workspace add-member)`,
        { phase: 'credentials' },
      );
    },

    async list({ member, name }, page) {
      if (name === undefined) return store.list(member, page);
      const found = await store.findByName(name);
      const isSeen =
        found !== undefined && (member === undefined || (await store.hasMember(found.id, member)));
      return isSeen ? { entries: [found], total: 1 } : { entries: [], total: 0 };
    },

    async remove(id) {
      if (!(await store.remove(id))) throw unknownWorkspace(id);
    },

    async members(id, page) {
      await get(id);
      return store.members(id, page);
    },

    async addMember(id, user) {
      if (await store.addMember(id, user)) return;
      await get(id);
      throw new Fault('not-found', `The user number ${user} does not exist`, { phase: 'request' });
    },

    async removeMember(id, user) {
      if (await store.removeMember(id, user)) return;
      throw new Fault(
        'not-found',
        `User number ${user} is not a member of workspace number ${id}`,
        {
          phase: 'request',
        },
      );
    },
  };
}

function unknownWorkspace(id: number): Fault {
  return new Fault('not-found', `The workspace number ${id} does not exist`, { phase: 'request' });
}
