import { createHash, randomBytes } from 'node:crypto';
import { Fault } from '../../foundation/fault.ts';
import { dayOf } from '../../foundation/telemetry/counted.ts';
import type {
  AccessTokenRow,
  AccessTokenStore,
  HeldTokenRow,
  Listed,
  NotAdded,
  Page,
} from '../../storage/rows/index.ts';
import { newTokenRights, type TokenRights } from '../token-rights.ts';

/** An access token as lists show it. Times are ms since the epoch. */
export interface AccessToken extends Omit<AccessTokenRow, 'rights'> {
  /** Its limits; undefined for none. */
  readonly rights: TokenRights | undefined;
}

/** A valid access token, and its user. */
interface HeldToken extends AccessToken, Pick<HeldTokenRow, 'holder'> {}

interface NewToken {
  readonly user: number;
  readonly name: string;
  /** Default: as the token that creates it. */
  readonly expiresAt?: number | undefined;
  /** Default: those of the token that creates it. */
  readonly scopes?: readonly string[] | undefined;
  readonly repositories?: readonly string[] | undefined;
  /** The administrator who creates it for its user, as the audit log names them. */
  readonly creator?: string | undefined;
}

/** The token that creates another one: the new one can neither do more nor live longer. */
interface TokenBounds {
  /** When it expires; undefined for never. */
  readonly until?: number | undefined;
  readonly rights?: TokenRights | undefined;
}

/** The tokens that identify users. Source: platform specification, section 5. */
export interface AccessTokens {
  /**
   * Creates a token and returns its value, which is shown only once. Throws a {@link Fault}: 400 for an invalid name,
   * expiry or limit, 403 for one that may do more or expires later than the token that creates it, 409 when the user
   * already has a token of this name.
   *
   * @param bounds those of the token that creates it; absent for administrators
   */
  create(
    token: NewToken,
    bounds?: TokenBounds,
  ): Promise<{ readonly value: string; readonly token: AccessToken }>;
  /**
   * Returns the token with that value, and its user. Throws a {@link Fault} (403) when the token is invalid, revoked or
   * expired.
   */
  use(value: string): Promise<HeldToken>;
  /** Lists the tokens of one user, or of all users. */
  list(user: number | undefined, page: Page): Promise<Listed<AccessToken>>;
  /**
   * Returns the revoked token. Throws a {@link Fault} (404) when it does not exist, or does not belong to this user.
   */
  revoke(id: number, user?: number): Promise<AccessToken>;
  /** Deletes tokens that expired long ago. */
  purge(signal?: AbortSignal): Promise<void>;
}

const tokenPrefix = 'sluice_';
const randomByteCount = 20;
const maxTokens = 200;
// An expired token stays in the list for a while, so that its user sees why it is rejected.
const endedListedMs = 30 * 24 * 3_600_000;
// Times are written with a four-digit year.
const lastEnd = Date.UTC(9999, 11, 31);

export function createAccessTokens(store: AccessTokenStore, now: () => number): AccessTokens {
  return {
    async create({ user, creator, ...wanted }, { until, rights: own } = {}) {
      const name = checkName(wanted.name);
      const rights = newTokenRights(wanted, own);
      const at = now();
      const expiresAt = wanted.expiresAt ?? until;
      // SQLite stores a fraction also in a column of whole numbers, and PostgreSQL rejects it.
      if (expiresAt !== undefined && !Number.isSafeInteger(expiresAt)) {
        throw new Fault(
          'bad-request',
          'The expiration of a token is not a time: write a date and a time, such as 2031-01-31T12:00:00Z',
          {
            phase: 'request',
          },
        );
      }
      if (expiresAt !== undefined && !(expiresAt > at)) {
        throw new Fault('bad-request', 'A token must expire in the future', { phase: 'request' });
      }
      if (expiresAt !== undefined && expiresAt > lastEnd) {
        throw new Fault(
          'bad-request',
          'A token must expire before the end of the year 9999: leave the expiration out for a token that does not expire',
          { phase: 'request' },
        );
      }
      if (until !== undefined && expiresAt !== undefined && expiresAt > until) {
        throw new Fault(
          'denied',
          'An access token cannot create one that expires later: leave out the expiration (--expires-in), or use another token',
          { phase: 'credentials' },
        );
      }
      const value = tokenPrefix + randomBytes(randomByteCount).toString('hex');
      const row = {
        user,
        name,
        createdAt: at,
        expiresAt: expiresAt ?? null,
        rights: rights ? JSON.stringify(rights) : null,
        creator: creator ?? null,
      };
      const token = await store.insert(hashOf(value), row, maxTokens);
      if (typeof token === 'string') throw notAdded(token, user, name);
      return { value, token: tokenOf(token) };
    },

    async use(value) {
      const at = now();
      const token = await store.findByHash(hashOf(value));
      if (!token || (token.expiresAt !== null && token.expiresAt <= at)) {
        throw new Fault(
          'denied',
          'The access token is invalid, was revoked or has expired: create another one with a token that is still valid (sluice token add), or ask the operator',
          { phase: 'credentials' },
        );
      }
      await noteUse(token.usedDay, at, day => store.touch(token.id, day));
      return tokenOf(token);
    },

    async list(user, page) {
      const { entries, total } = await store.list(user, page);
      return { entries: entries.map(tokenOf), total };
    },

    async revoke(id, user) {
      const token = await store.remove(id, user);
      if (token) return tokenOf(token);
      throw new Fault('not-found', `The access token number ${id} does not exist`, {
        phase: 'request',
      });
    },

    async purge(signal) {
      await store.purge(now() - endedListedMs, signal);
    },
  };
}

function tokenOf<Row extends AccessTokenRow>({ rights, ...row }: Row) {
  return { ...row, rights: rights === null ? undefined : (JSON.parse(rights) as TokenRights) };
}

function notAdded(why: NotAdded, user: number, name: string): Fault {
  switch (why) {
    case 'unknown-owner':
      return new Fault('not-found', `The user number ${user} does not exist`, { phase: 'request' });
    case 'taken':
      return new Fault(
        'in-use',
        `The user already has an access token '${name}': remove it, or choose another name`,
        {
          phase: 'request',
        },
      );
    case 'too-many':
      return new Fault(
        'in-use',
        `The user already has ${maxTokens} access tokens: remove tokens that are no longer used`,
        { phase: 'request' },
      );
  }
}

function hashOf(value: string): Buffer {
  return createHash('sha256').update(value).digest();
}

const longestName = 100;

/** Returns the name of a token or of credentials without surrounding spaces. Throws a {@link Fault} (400). */
export function checkName(text: string): string {
  const name = text.trim();
  if (name === '' || name.length > longestName || /\p{C}/u.test(name)) {
    throw new Fault('bad-request', `'name' must have 1 to ${longestName} printable characters`, {
      phase: 'request',
    });
  }
  return name;
}

/**
 * Records the day of a use (`yyyy-mm-dd`, UTC), and so writes at most once a day.
 *
 * @param noted the recorded day
 * @param at ms since the epoch
 */
export async function noteUse(
  noted: string | null,
  at: number,
  note: (day: string) => Promise<void>,
): Promise<void> {
  const day = dayOf(at);
  if (day !== noted) await note(day);
}
