import { Fault } from '../../foundation/fault.ts';
import type { Listed, Page, UserRow, UserStore } from '../../storage/rows/index.ts';

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
const label = '[\\p{L}\\p{N}](?:[\\p{L}\\p{N}-]*[\\p{L}\\p{N}])?';
const emailPattern = new RegExp(
  `^[\\p{L}\\p{N}.!#$%&'*+/=?^_\`{|}~-]{1,64}@${label}(?:\\.${label})*$`,
  'u',
);

export function createUsers(store: UserStore, now: () => number): Users {
  const get = async (id: number): Promise<User> => {
    const row = await store.find(id);
    if (!row) throw unknown(`number ${id}`);
    return userOf(row);
  };
  return {
    get,

    async add(text) {
      const email = spelled(text);
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
      const row = await store.findByEmail(spelled(email));
      if (!row) throw unknown(email.slice(0, longestEmail));
      return userOf(row);
    },

    async list(email, page) {
      if (email === undefined) {
        const { entries, total } = await store.list(page);
        return { entries: entries.map(userOf), total };
      }
      const row = await store.findByEmail(spelled(email));
      return row ? { entries: [userOf(row)], total: 1 } : { entries: [], total: 0 };
    },

    async remove(id) {
      if (!(await store.remove(id))) throw unknown(`number ${id}`);
    },
  };
}

/** Returns one spelling for each address: hardly any mail host distinguishes capital letters, and people do not. */
function spelled(email: string): string {
  return email.trim().toLowerCase();
}

/** Returns the user of a row. */
export function userOf(row: UserRow): User {
  return { ...row, userName: row.email.slice(0, row.email.indexOf('@')) };
}

function unknown(who: string): Fault {
  return new Fault('not-found', `The user ${who} does not exist`, { phase: 'request' });
}
