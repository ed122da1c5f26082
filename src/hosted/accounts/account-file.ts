import type { Account, Role } from './accounts.ts';
import type { AdministratorRole } from './administrator-roles.ts';
import { passwordForm } from './password-hash.ts';

/** An `htpasswd` file, and the roles of its accounts. */
export interface AccountFile {
  readonly file: string;
  /** Names that administer the service and every repository or, with roles, a part of the service. */
  readonly administrators:
    | readonly string[]
    | Readonly<Record<string, readonly AdministratorRole[]>>;
  /** Roles of all others by repository pattern. */
  readonly repositories: Readonly<Record<string, Role>>;
}

/** Maximum size of such a file in bytes. */
export const mostFileBytes = 1024 * 1024;

const mostAccounts = 10_000;
const longestName = 255;

/**
 * Returns the accounts of an `htpasswd` file, one `name:hash` a line. Throws an `Error` that names the line and
 * contains no hash. Source: the documentation of Apache's htpasswd.
 */
export function parseAccountFile(
  text: string,
  { administrators, repositories }: AccountFile,
): Map<string, Account> {
  const accounts = new Map<string, Account>();
  const rightsOf = (name: string): Omit<Account, 'password'> => {
    if (isList(administrators)) return administrators.includes(name) ? {} : { repositories };
    const roles = Object.hasOwn(administrators, name) ? administrators[name] : undefined;
    return roles ? { repositories, roles } : { repositories };
  };
  for (const [at, line] of text.split('\n').entries()) {
    const entry = line.trim();
    if (entry === '' || entry.startsWith('#')) continue;
    const fail = (why: string) => new Error(`line ${at + 1}: ${why}`);
    const colon = entry.indexOf(':');
    const [name, password] = [entry.slice(0, Math.max(colon, 0)), entry.slice(colon + 1)];
    if (name === '' || name.length > longestName) throw fail('expected name:hash');
    if (name === 'token') throw fail("the name 'token' is reserved for bearer tokens");
    if (accounts.has(name)) throw fail('this name is listed twice');
    if (accounts.size >= mostAccounts) throw fail(`more than ${mostAccounts} accounts`);
    if (formOf(password, fail) === 'plain') {
      throw fail('this is not a password hash. Write one with: htpasswd -B FILE NAME');
    }
    accounts.set(name, { password, ...rightsOf(name) });
  }
  return accounts;
}

function isList(
  administrators: AccountFile['administrators'],
): administrators is readonly string[] {
  return Array.isArray(administrators);
}

function formOf(password: string, fail: (why: string) => Error) {
  try {
    return passwordForm(password);
  } catch (error) {
    throw fail((error as Error).message);
  }
}
