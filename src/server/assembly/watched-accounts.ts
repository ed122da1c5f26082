import type { Logger } from '../../foundation/telemetry/index.ts';
import {
  type AccountChange,
  type AccountFiles,
  openAccountFiles,
} from '../../hosted/accounts/index.ts';
import type { AuditLog } from '../../storage/rows/index.ts';
import { type Config, ConfigError } from '../config/index.ts';

const mostNoted = 100;

/** Returns the accounts of the configuration and of its files. Throws {@link ConfigError} for a file that cannot be used. */
export function openAccounts(
  config: Pick<Config, 'accounts' | 'accountFiles'>,
  log: Logger,
  onChange: (changes: readonly AccountChange[]) => void,
): AccountFiles {
  const listed = new Map(Object.entries(config.accounts));
  try {
    return openAccountFiles({ listed, files: config.accountFiles, log, onChange });
  } catch (error) {
    throw new ConfigError((error as Error).message, { cause: error });
  }
}

/** Notes changes of an account file in the audit log. The person who made them is unknown. */
export function noteChanges(audit: Pick<AuditLog, 'add'>, changes: readonly AccountChange[]): void {
  for (const { action, name, file } of changes.slice(0, mostNoted)) {
    audit.add({ actor: `account file ${file}`, action, target: name });
  }
  const more = changes.length - mostNoted;
  const file = changes[0]?.file ?? '';
  if (more <= 0) return;
  audit.add({ actor: `account file ${file}`, action: 'account.change', target: `${more} more` });
}
