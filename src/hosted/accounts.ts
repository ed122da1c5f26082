import { createHash, timingSafeEqual } from 'node:crypto';

/** What an account is to a repository; each includes the ones before. */
export type Role = 'pull' | 'push' | 'administer';

export interface Account {
  readonly password: string;
  /** Roles by repository pattern. Without it the account administers the service and every repository. */
  readonly repositories?: Readonly<Record<string, Role>> | undefined;
}

/** Accounts by name. */
export type Accounts = ReadonlyMap<string, Account>;

/** The account of that name and password, undefined for none. The time it takes does not tell which names exist. */
export function findAccount(
  accounts: Accounts,
  name: string,
  password: string,
): Account | undefined {
  const account = accounts.get(name);
  const matches = isEqual(password, account?.password ?? '');
  return account !== undefined && matches ? account : undefined;
}

function isEqual(one: string, other: string): boolean {
  const digest = (text: string) => createHash('sha256').update(text).digest();
  return timingSafeEqual(digest(one), digest(other));
}
