import type { IncomingMessage } from 'node:http';
import type { Builds, Cancellation, Requester } from '../../../builds/index.ts';
import { Fault } from '../../../foundation/fault.ts';
import { limitsIn, requireScope } from '../../../platform/built-in/index.ts';
import type { Caller } from '../../../request/index.ts';
import type { RecordAudit } from '../../callers/audit-notes.ts';
import type { RequireAdministrator } from '../../callers/basic-auth.ts';
import { networkOf } from '../../callers/client-address.ts';

export interface CancelDeps {
  readonly builds: Builds;
  readonly requireAdministrator: RequireAdministrator;
  readonly recordAudit: RecordAudit;
}

/** Returns the caller as builds record who has requested them. */
export function requesterOf({ user, address, rights }: Caller): Requester {
  return { owner: user ?? networkOf(address), limits: limitsIn(rights) };
}

/** Cancels a build for a caller who requested it, or for an administrator. Throws a `Fault`: 403, 404. */
export async function cancelBuild(
  request: IncomingMessage,
  caller: Caller,
  buildId: string,
  { builds, requireAdministrator, recordAudit }: CancelDeps,
): Promise<{ readonly id: string; readonly outcome: Cancellation }> {
  const requester = requesterOf(caller);
  const { id } = await builds.get(buildId);
  const isOwn = await builds.isCaller(id, requester);
  if (isOwn) requireScope(caller.rights, 'build');
  else await requireAdministrator(request, 'site').catch(refuseCancel);
  const outcome = await builds.cancel(id, isOwn ? requester : undefined);
  if (outcome === 'cancelled') recordAudit(request, 'build.cancel', id);
  return { id, outcome };
}

/** Throws the reason why the caller may not cancel another caller's build. */
function refuseCancel(error: unknown): never {
  if (!(error instanceof Fault) || !['unauthorized', 'denied'].includes(error.kind)) throw error;
  throw error.retold(
    `Only the caller who requested a build, or an administrator, can cancel it: ${error.message}`,
  );
}
