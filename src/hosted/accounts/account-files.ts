import { type BigIntStats, readFileSync, statSync } from 'node:fs';
import { readFile, stat } from 'node:fs/promises';
import { whyUnreadable } from '../../foundation/fault.ts';
import type { Logger } from '../../foundation/telemetry/index.ts';
import type { Account, Accounts, Role } from './accounts.ts';
import type { AdministratorRole } from './administrator-roles.ts';
import { passwordForm } from './password-hash.ts';

/** The accounts of the configuration and of files. A file is read again when it has changed. */
export interface AccountFiles {
  /** Always the same object, with the current accounts. */
  readonly accounts: Accounts;
  /** Checks whether files have changed. A broken file is logged once, and its accounts stay as they are. */
  look(): Promise<void>;
}

export interface AccountFilesOptions {
  readonly listed: Accounts;
  readonly files: readonly AccountFile[];
  readonly log: Logger;
  /** Called after accounts have changed, with the changes: each has an action, such as `account.add`, and a name. */
  readonly onChange: (changes: readonly AccountChange[]) => void;
}

export interface AccountChange {
  readonly action: 'account.add' | 'account.change' | 'account.remove';
  readonly name: string;
  readonly file: string;
}

interface Kept {
  readonly source: AccountFile;
  /** Version of the content in use. */
  version: string;
  accounts: Map<string, Account>;
  /** Version found at the last look, when it is not in use. */
  seen: string;
  reported: string;
}

/** Reads the files. Throws an `Error` for an unusable one, with its path. */
export function openAccountFiles(options: AccountFilesOptions): AccountFiles {
  const { listed, files, log, onChange } = options;
  const accounts = new Map(listed);
  const kept: Kept[] = [];
  for (const source of files) {
    try {
      const version = versionOf(statSync(source.file, { bigint: true }));
      const own = parseAccountFile(readFileSync(source.file, 'utf8'), source);
      requireNew(own, accounts);
      for (const [name, account] of own) accounts.set(name, account);
      kept.push({ source, version, accounts: own, seen: version, reported: '' });
    } catch (error) {
      throw new Error(`The account file ${source.file} cannot be used: ${whyUnreadable(error)}`, {
        cause: error,
      });
    }
  }

  const use = (file: Kept, found: Map<string, Account>): void => {
    const others = new Map(accounts);
    for (const name of file.accounts.keys()) others.delete(name);
    requireNew(found, others);
    const changes = changesOf(file.source.file, file.accounts, found);
    // Runs within one turn of the event loop, so that no reader sees a part of the changes.
    for (const { name } of changes) {
      const account = found.get(name);
      if (account) accounts.set(name, account);
      else accounts.delete(name);
    }
    file.accounts = found;
    if (changes.length === 0) return;
    onChange(changes);
    log.info(
      { file: file.source.file, changes: changes.length },
      'the accounts of a file have changed',
    );
  };

  const lookAt = async (file: Kept): Promise<void> => {
    const path = file.source.file;
    const version = versionOf(await stat(path, { bigint: true }));
    if (version === file.version) {
      file.reported = '';
      return;
    }
    // htpasswd writes into the file: an unfinished file is left for the next look.
    const isSettled = version === file.seen;
    file.seen = version;
    if (!isSettled) return;
    const text = await readFile(path, 'utf8');
    if (versionOf(await stat(path, { bigint: true })) !== version) return;
    use(file, parseAccountFile(text, file.source));
    file.version = version;
    file.reported = '';
  };

  return {
    accounts,

    async look() {
      for (const file of kept) {
        try {
          await lookAt(file);
        } catch (error) {
          const reason = whyUnreadable(error);
          if (reason === file.reported) continue;
          file.reported = reason;
          log.error(
            { file: file.source.file, reason },
            'cannot use the changed account file: its previous accounts stay in use',
          );
        }
      }
    },
  };
}

function requireNew(found: Accounts, others: Accounts): void {
  for (const name of found.keys()) {
    if (others.has(name)) throw new Error(`the account '${name}' is also listed elsewhere`);
  }
}

function changesOf(file: string, before: Accounts, after: Accounts): AccountChange[] {
  const changes: AccountChange[] = [];
  for (const name of before.keys()) {
    if (!after.has(name)) changes.push({ action: 'account.remove', name, file });
  }
  for (const [name, { password }] of after) {
    const old = before.get(name);
    if (!old) changes.push({ action: 'account.add', name, file });
    else if (old.password !== password) changes.push({ action: 'account.change', name, file });
  }
  return changes;
}

/**
 * Returns a value that differs when the file may have other content. Throws for a path that is not a file, and for a
 * file that is too large.
 */
function versionOf(stats: BigIntStats): string {
  if (!stats.isFile()) throw new Error('it is not a file');
  if (stats.size > BigInt(mostFileBytes))
    throw new Error(`it is larger than ${mostFileBytes} bytes`);
  return [stats.dev, stats.ino, stats.size, stats.mtimeNs, stats.ctimeNs].join(' ');
}

/** An `htpasswd` file, and the roles of its accounts. */
interface AccountFile {
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
function parseAccountFile(
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
