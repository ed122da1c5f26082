import { Fault } from '../../foundation/fault.ts';
import type { Listed, Page } from '../../storage/rows/page.ts';
import type { UserRow } from '../../storage/rows/people/user-rows.ts';
import type { WorkspaceRow, WorkspaceStore } from '../../storage/rows/people/workspace-rows.ts';

export type Workspace = WorkspaceRow;

/** What users share credentials in. */
export interface Workspaces {
  /** Throws a {@link Fault}: 400 for what is no name, 409 for one that is taken. */
  add(name: string): Workspace;
  /** Throws a {@link Fault} (404). */
  get(id: number): Workspace;
  hasMember(id: number, user: number): boolean;
  /** Throws a {@link Fault} (403) for who is no member, whether there is such a workspace or not. */
  requireMember(id: number, user: number): void;
  /** Those of a member or all; of these the one of a name, where one is given. */
  list(
    filter: { readonly member?: number | undefined; readonly name?: string | undefined },
    page: Page,
  ): Listed<Workspace>;
  /** Ends the credentials of the workspace as well. Throws a {@link Fault} (404). */
  remove(id: number): void;
  /** Throws a {@link Fault} (404) without such a workspace. */
  members(id: number, page: Page): Listed<UserRow>;
  /** Throws a {@link Fault} (404) without such a workspace. */
  addMember(id: number, user: number): void;
  /** Throws a {@link Fault} (404) when the user is no member. */
  removeMember(id: number, user: number): void;
}

const namePattern = /^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/;

export function createWorkspaces(store: WorkspaceStore, now: () => number): Workspaces {
  const get = (id: number): Workspace => {
    const workspace = store.find(id);
    if (workspace) return workspace;
    throw new Fault('not-found', `There is no workspace number ${id}`, { phase: 'request' });
  };
  return {
    get,

    add(name) {
      if (!namePattern.test(name)) {
        throw new Fault(
          'bad-request',
          "'name' of a workspace must be letters, digits and . _ -, at most 63 and none of these three first",
          { phase: 'request' },
        );
      }
      const workspace = store.insert(name, now());
      if (workspace) return workspace;
      throw new Fault('in-use', `There is a workspace ${name} already`, { phase: 'request' });
    },

    hasMember: (id, user) => store.hasMember(id, user),

    requireMember(id, user) {
      if (store.hasMember(id, user)) return;
      throw new Fault(
        'denied',
        `The user of this access token is no member of workspace ${id}: have an administrator add them (sluice workspace add-member)`,
        { phase: 'credentials' },
      );
    },

    list({ member, name }, page) {
      if (name === undefined) return store.list(member, page);
      const found = store.findByName(name);
      const isSeen =
        found !== undefined && (member === undefined || store.hasMember(found.id, member));
      return isSeen ? { entries: [found], total: 1 } : { entries: [], total: 0 };
    },

    remove(id) {
      store.remove(get(id).id);
    },

    members: (id, page) => store.members(get(id).id, page),

    addMember(id, user) {
      store.addMember(get(id).id, user);
    },

    removeMember(id, user) {
      if (store.removeMember(id, user)) return;
      throw new Fault('not-found', `User number ${user} is no member of workspace number ${id}`, {
        phase: 'request',
      });
    },
  };
}
