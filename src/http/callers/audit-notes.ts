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
    const actor = actorOf(request, callers);
    audit.add({ actor, client: callerAddress(request, trustedProxies), action, target });
  };
}

/** Returns the sender of a request as the audit log names it. */
function actorOf(request: IncomingMessage, callers: Callers): string {
  const { account, user } = callers.of(request);
  if (account !== undefined) return `account ${account}`;
  if (user !== undefined) return `user ${user}`;
  // Callers without a login may cancel the builds that they requested.
  return callers.hasServerToken(request) ? 'a token of this server' : 'a caller without a login';
}
