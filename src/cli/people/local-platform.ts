import { Fault } from '../../foundation/fault.ts';
import { readVersion } from '../../foundation/version.ts';
import { administratorRoles } from '../../hosted/accounts/index.ts';
import { createPlatformApi } from '../../http/platform/platform-api.ts';
import { createBuiltInPlatform } from '../../platform/built-in/index.ts';
import { keyDirectory } from '../../server/config/index.ts';
import { type AuditKind, openSecretBox } from '../../storage/rows/index.ts';
import { CommandError, type Values } from '../command/command.ts';
import { commandLine, withLocalRows } from '../data/local-data.ts';
import type { AskPlatform } from './local-access.ts';

/** Runs the work with the platform in the data directory. Throws {@link CommandError} with the platform's message. */
export function withLocalPlatform<T>(
  values: Values,
  work: (ask: AskPlatform) => Promise<T>,
  { create }: { readonly create: boolean },
): Promise<T> {
  return withLocalRows(
    values,
    async ({ config, rows }) => {
      const secrets = openSecretBox(keyDirectory(config));
      const platform = createBuiltInPlatform({ rows, secrets });
      const openAudit = (kind: AuditKind) =>
        rows.auditLog(error => {
          console.error(`Cannot write to the audit log: ${(error as Error).message}`);
        }, kind);
      const audit = openAudit('changes');
      const audits = { changes: audit, pulls: openAudit('pulls'), builds: openAudit('builds') };
      try {
        return await work(
          askLocal(
            createPlatformApi({
              platform,
              version: readVersion(),
              audit,
              audits,
              messages: rows.messages,
            }),
          ),
        );
      } finally {
        await audit.flush();
      }
    },
    { create },
  );
}

function askLocal(api: ReturnType<typeof createPlatformApi>): AskPlatform {
  return async (method, target, body) => {
    const { pathname, searchParams } = new URL(target, 'http://localhost');
    try {
      return await api({
        method,
        path: pathname,
        query: Object.fromEntries(searchParams),
        // A person who can write to the directory could change the database as well.
        identify: async () => ({
          kind: 'administrator',
          name: commandLine(),
          roles: administratorRoles,
        }),
        readBody: async () => body,
      });
    } catch (error) {
      if (error instanceof Fault) throw new CommandError(error.message);
      throw error;
    }
  };
}
