import type { IncomingMessage } from 'node:http';
import type { AuditLog } from '../../storage/rows/people/audit-log.ts';
import type { Callers } from './callers.ts';
import { callerAddress } from './client-address.ts';

/** Records in the audit log what the sender of a request did. */
export type NoteDeed = (request: IncomingMessage, action: string, target: string) => void;

export function createNoteDeed(
  audit: Pick<AuditLog, 'add'>,
  callers: Callers,
  trustedProxies: number,
): NoteDeed {
  return (request, action, target) => {
    const { account, user } = callers.of(request);
    const actor =
      account !== undefined
        ? `account ${account}`
        : user === undefined
          ? 'a token of this server'
          : `user ${user}`;
    audit.add({ actor, client: callerAddress(request, trustedProxies), action, target });
  };
}
