import { createHash, timingSafeEqual } from 'node:crypto';

// Native packages, which most starts do without.
const loadArgon2 = () => import('@node-rs/argon2');
const loadBcrypt = () => import('@node-rs/bcrypt');

/** The stored form of a password: the password itself, or one of its hashes. */
export type PasswordForm = 'plain' | 'bcrypt' | 'argon2id';

// Source: the modular crypt format, and the PHC string format.
const bcrypt = /^\$2[aby]\$(\d\d)\$[./A-Za-z0-9]{53}$/;
const argon2id =
  /^\$argon2id\$v=19\$m=(\d{1,9}),t=(\d{1,4}),p=(\d{1,3})\$[A-Za-z0-9+/]{11,86}\$[A-Za-z0-9+/]{16,86}$/;
// No password looks like this by accident. These are hashes of other programs, and damaged ones of the forms above.
const anyHash =
  /^(\$(1|2[abxy]?|3|5|6|7|y|gy|apr1|md5|sha1|argon2\w*|scrypt|s0|pbkdf2[\w-]*)\$|\{(SSHA|SHA|CRYPT)[\d-]*\})/i;

// Cost limits of one login: about two seconds of a processor.
const mostBcryptCost = 15;
const mostArgonMemoryKiB = 256 * 1024;
const mostArgonWorkKiB = 1024 * 1024;
const mostArgonThreads = 16;

/** Returns the form of a text. Throws an `Error`, which does not contain the text, for an unusable hash. */
export function passwordForm(text: string): PasswordForm {
  const cost = bcrypt.exec(text)?.[1];
  if (cost !== undefined) {
    if (Number(cost) >= 4 && Number(cost) <= mostBcryptCost) return 'bcrypt';
    throw new Error(`the cost of the bcrypt hash is ${cost}: expected 4 to ${mostBcryptCost}`);
  }
  const [found, memory, passes, threads] = (argon2id.exec(text) ?? []).map(Number);
  if (found !== undefined && memory && passes && threads) {
    const isBearable =
      memory >= 8 * threads &&
      memory <= mostArgonMemoryKiB &&
      memory * passes <= mostArgonWorkKiB &&
      threads <= mostArgonThreads;
    if (isBearable) return 'argon2id';
    throw new Error(
      `the parameters of the argon2id hash are out of range: expected m up to ${mostArgonMemoryKiB}, m times t up to ${mostArgonWorkKiB}, p up to ${mostArgonThreads}`,
    );
  }
  if (!anyHash.test(text)) return 'plain';
  throw new Error(
    "the format of the password hash is unknown: expected bcrypt ($2y$, from 'htpasswd -nB NAME') or argon2id ($argon2id$v=19$, from 'sluice account hash')",
  );
}

/**
 * Resolves with true when the password matches the hash. The hash is computed beside the main thread.
 *
 * @param stored hash in a form that {@link passwordForm} has returned
 */
export async function matchesHash(
  stored: string,
  form: Exclude<PasswordForm, 'plain'>,
  password: string,
): Promise<boolean> {
  if (form === 'bcrypt') return (await loadBcrypt()).verify(password, stored);
  return (await loadArgon2()).verify(stored, password);
}

/** Returns true when two texts are equal; the time does not depend on where they differ. */
export function isSameText(one: string, other: string): boolean {
  const digest = (text: string) => createHash('sha256').update(text).digest();
  return timingSafeEqual(digest(one), digest(other));
}

/** Resolves with an argon2id hash of a password, with a new salt. Source: OWASP, 19 MiB and two passes. */
export async function hashPassword(password: string): Promise<string> {
  const { hash } = await loadArgon2();
  return hash(password, { memoryCost: 19_456, timeCost: 2, parallelism: 1 });
}
