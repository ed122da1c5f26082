import { createHash, createHmac, randomBytes } from 'node:crypto';
import { boundedCache } from '../../foundation/bounded-cache.ts';
import { Fault } from '../../foundation/fault.ts';
import { Semaphore } from '../../foundation/semaphore.ts';
import type { Account, Accounts } from './accounts.ts';
import { isSameText, matchesHash, passwordForm } from './password-hash.ts';

/** Checks names and passwords against those of the accounts. */
export interface AccountCheck {
  /**
   * Returns the account of that name and password, undefined for none. The time it takes does not depend on whether
   * the name exists. Hashes are computed beside the main thread, two at a time; the result is remembered for some
   * minutes.
   *
   * @param beforeHash called right before a hash is computed; an error that it throws ends the check
   * @throws a `Fault` (503) when too many checks wait
   */
  find(name: string, password: string, beforeHash?: () => void): Promise<Account | undefined>;
  /** Forgets all results. Call it after the accounts have changed. */
  reset(): void;
}

// A hash occupies a core for 20 to 100 ms, and one of libuv's four threads, which also read files.
const hashesAtOnce = 2;
const mostWaiting = 1000;
const keptMatches = 10_000;
const matchKeptMs = 5 * 60_000;
// Clients with an outdated password try it with each request.
const keptFailures = 2000;
const failureKeptMs = 30_000;

export function createAccountCheck(accounts: Accounts): AccountCheck {
  const key = randomBytes(32);
  const matches = boundedCache<string, true>(keptMatches, { ttl: matchKeptMs });
  const failures = boundedCache<string, true>(keptFailures, { ttl: failureKeptMs });
  const turns = new Semaphore({ limit: hashesAtOnce, mostWaiting, refusal: tooManyLogins });
  let decoys: Decoys | undefined;

  /** Returns the remembered result, undefined for none. */
  const recall = (id: string): boolean | undefined =>
    matches.has(id) ? true : failures.has(id) ? false : undefined;

  const isPassword = async (
    name: string,
    stored: string,
    password: string,
    beforeHash: (() => void) | undefined,
  ): Promise<boolean> => {
    const form = passwordForm(stored);
    if (form === 'plain') return isSameText(password, stored);
    // The hash is a part of the text, so the result does not apply to another password of the account.
    const text = JSON.stringify([name, stored, password]);
    const id = createHmac('sha256', key).update(text).digest('base64url');
    const known = recall(id);
    if (known !== undefined) return known;
    return turns.run(async () => {
      // Another caller may have checked the same password meanwhile.
      const found = recall(id);
      if (found !== undefined) return found;
      beforeHash?.();
      const isRight = await matchesHash(stored, form, password);
      (isRight ? matches : failures).set(id, true);
      return isRight;
    });
  };

  return {
    async find(name, password, beforeHash) {
      const account = accounts.get(name);
      decoys ??= collectDecoys(accounts);
      const stored = account?.password ?? decoyFor(decoys, name);
      const isRight = await isPassword(name, stored, password, beforeHash);
      // The account file may have been read again meanwhile.
      const isStill = account !== undefined && accounts.get(name) === account;
      return isRight && isStill ? account : undefined;
    },

    reset() {
      matches.clear();
      failures.clear();
      decoys = undefined;
    },
  };
}

/** Hashes for unknown names: logins with such names take as long as those with existing names. */
interface Decoys {
  readonly passwords: readonly string[];
  /** The key is the same at each start, so that a name always takes equally long. It is as secret as the passwords. */
  readonly key: Uint8Array;
}

function collectDecoys(accounts: Accounts): Decoys {
  const passwords = [...accounts.values()].map(({ password }) => password);
  const hash = createHash('sha256').update('sluice decoys\0');
  for (const password of passwords) hash.update(`${password.length} `).update(password);
  return { passwords, key: hash.digest() };
}

function decoyFor({ passwords, key }: Decoys, name: string): string {
  const at = createHmac('sha256', key).update(name).digest().readUInt32BE() % passwords.length;
  return passwords[at] ?? '';
}

function tooManyLogins(): Fault {
  return new Fault('unavailable', 'Too many logins are being checked: try again', {
    phase: 'credentials',
    retryAfterSeconds: 5,
  });
}
